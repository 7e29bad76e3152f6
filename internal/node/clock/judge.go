// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"fmt"
	"time"
)

// Hysteresis: a clock becomes synchronised after settleTime with at least minGoodEstimates estimates, all of which were below margin times
// the limit. It is not synchronised any more with the first estimate beyond the limit. The bound includes the drift for lookAhead, which is
// longer than the time to the next estimate: ktsnd, which ages estimates by itself, then uses the clock until that, too.
const (
	settleTime       = 2 * time.Second
	minGoodEstimates = 3
	margin           = 0.8
	lookAhead        = 2 * time.Second
)

// boundAhead returns the largest bound of the error before the next estimate.
func (e *Estimate) boundAhead() time.Duration {
	return e.Bound + time.Duration(lookAhead.Seconds()*float64(e.DriftPPB))
}

// Judge turns estimates into verdicts for one need. The zero value has seen no estimate.
type Judge struct {
	verdict Verdict
	good    int       // estimates in a row
	since   time.Time // the first of them
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

// Verdict returns the last verdict.
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
	case e.boundAhead() > need.MaxError:
		return Verdict{State: Unsynchronized, Reason: ReasonErrorTooLarge, Sentence: tooLarge(need, e)}
	case j.verdict.State == Synchronized || (j.good >= minGoodEstimates && e.At.Sub(j.since) >= settleTime):
		return Verdict{State: Synchronized, Reason: ReasonSynchronized}
	}
	settling := fmt.Sprintf("the clock's error is at most %v now; it is trusted when it has been below %v for %v", e.boundAhead(),
		time.Duration(margin*float64(need.MaxError)), settleTime)
	state := j.verdict.State
	if state == "" || state == Unknown {
		state = Unknown
	}
	return Verdict{State: state, Reason: ReasonSettling, Sentence: settling}
}

// count counts good estimates in a row.
func (j *Judge) count(need Need, e Estimate) {
	if float64(e.boundAhead()) > margin*float64(need.MaxError) {
		j.good = 0
		return
	}
	if j.good == 0 {
		j.since = e.At
	}
	j.good++
}

// lost judges a clock without a source.
func (j *Judge) lost(need Need, e Estimate) Verdict {
	lost := e.At.Sub(e.Lost)
	since := lost.Round(time.Millisecond)
	switch {
	case e.boundAhead() > need.MaxError:
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

// tooLarge returns a message that names the largest part of the bound, to be reduced first.
func tooLarge(need Need, e Estimate) string {
	parts := e.Parts
	parts.Drift += e.boundAhead() - e.Bound
	name, part := parts.Largest()
	sentence := fmt.Sprintf("the clock's error is at most %v, and %v is allowed (spec.clock.maxError); its largest part is %s (%v)", e.boundAhead(),
		need.MaxError, name, part)
	if e.Why.Sentence != "" {
		sentence += ": " + e.Why.Sentence
	}
	return sentence
}
