// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"fmt"
	"time"
)

// Hysteresis: a clock is believed after goodFor, in which there were at least goodTimes estimates and all of them were within margin of
// what is asked for. It is not believed any more with the first that is beyond. Estimates are taken with what the clock may drift for
// lasting, which is longer than until the next one: who ages them by themselves, as ktsnd does, believes the clock until then, too.
const (
	goodFor   = 2 * time.Second
	goodTimes = 3
	margin    = 0.8
	lasting   = 2 * time.Second
)

// soon is the bound of the error that there may be before another estimate is heard of.
func (e *Estimate) soon() time.Duration {
	return e.Bound + time.Duration(lasting.Seconds()*float64(e.DriftPPB))
}

// Judge says what estimates mean for one who needs them. The zero value has seen none.
type Judge struct {
	verdict Verdict
	good    int
	since   time.Time // of the good ones
}

// Look judges the estimate.
func (j *Judge) Look(need Need, estimate Estimate) Verdict {
	next := j.next(need, estimate)
	if next.State != j.verdict.State {
		next.Since = estimate.At
		j.verdict = next
		return next
	}
	next.Since = j.verdict.Since
	j.verdict = next
	return next
}

// Verdict is the last one.
func (j *Judge) Verdict() Verdict { return j.verdict }

func (j *Judge) next(need Need, e Estimate) Verdict {
	if e.Source == None || e.Bound < 0 {
		j.good = 0
		return Verdict{State: Unknown, Reason: e.Why.Reason, Sentence: e.Why.Sentence}
	}
	if !e.Lost.IsZero() {
		j.good = 0
		return j.lost(need, e)
	}
	j.count(need, e)
	switch {
	case e.soon() > need.MaxError:
		return Verdict{State: Unsynchronized, Reason: ReasonErrorTooLarge, Sentence: tooLarge(need, e)}
	case j.verdict.State == Synchronized || (j.good >= goodTimes && e.At.Sub(j.since) >= goodFor):
		return Verdict{State: Synchronized, Reason: ReasonSynchronized}
	}
	settling := fmt.Sprintf("the clock's error is at most %v now; it is believed when it has been below %v for %v", e.soon(),
		time.Duration(margin*float64(need.MaxError)), goodFor)
	state := j.verdict.State
	if state == "" || state == Unknown {
		state = Unknown
	}
	return Verdict{State: state, Reason: ReasonSettling, Sentence: settling}
}

// count counts estimates that are good in a row.
func (j *Judge) count(need Need, e Estimate) {
	if float64(e.soon()) > margin*float64(need.MaxError) {
		j.good = 0
		return
	}
	if j.good == 0 {
		j.since = e.At
	}
	j.good++
}

// lost is for a clock that nobody keeps.
func (j *Judge) lost(need Need, e Estimate) Verdict {
	lost := e.At.Sub(e.Lost)
	since := lost.Round(time.Millisecond) // to be read
	switch {
	case e.soon() > need.MaxError:
		return Verdict{State: Unsynchronized, Reason: ReasonErrorTooLarge, Sentence: tooLarge(need, e)}
	case lost > need.Holdover:
		return Verdict{State: Unsynchronized, Reason: ReasonHoldoverOver, Sentence: fmt.Sprintf("nobody has kept the clock for %v, and %v are "+
			"allowed (spec.clock.holdover): %s", since, need.Holdover, e.Why.Sentence)}
	case !j.verdict.State.Good():
		return Verdict{State: Unsynchronized, Reason: e.Why.Reason, Sentence: e.Why.Sentence}
	}
	return Verdict{State: Holdover, Reason: e.Why.Reason, Sentence: fmt.Sprintf("nobody has kept the clock for %v, and its error is at most %v "+
		"now: %s", since, e.Bound, e.Why.Sentence)}
}

// tooLarge names the largest part of the bound, which is where to begin.
func tooLarge(need Need, e Estimate) string {
	parts := e.Parts
	parts.Drift += e.soon() - e.Bound
	name, part := parts.Largest()
	sentence := fmt.Sprintf("the clock's error is at most %v, and %v is allowed (spec.clock.maxError); its largest part is %s (%v)", e.soon(),
		need.MaxError, name, part)
	if e.Why.Sentence != "" {
		sentence += ": " + e.Why.Sentence
	}
	return sentence
}
