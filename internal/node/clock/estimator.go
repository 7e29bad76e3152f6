// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/ptp4l"
)

// What the estimator reckons with.
const (
	// recent is how many measurements jitter and drift are taken from, one a second; delays that of the path delay.
	recent, delays = 32, 8
	// frequencies is how many readings of the kernel's frequency, one a second, drift is taken from.
	frequencies = 60
	// enough readings of the frequency show how much it changes; before, the drift is unseenPPB more.
	enough    = 4
	unseenPPB = 10_000
	// mostPPB is the largest rate error that Linux corrects: 500 ppm by the frequency, and 10 % by the tick, which ptp4l sets, too.
	mostPPB = 100_500_000
	// staleAfter is for how long no Sync message may come before the source counts as lost, if the interval between them is not longer.
	staleAfter = 3 * time.Second
	// longestInterval is the longest interval of Sync messages that is waited for.
	longestInterval = 16 * time.Second
	// enoughUnchanged is after how many measurements an offset that stays the same is one that was measured, and no left-over.
	enoughUnchanged = 5
	// freshAfterStep is how many measurements there must be after a step: the first may have been made before it.
	freshAfterStep = 2
	// sameUpdate is by how much chronyd moves the time of a measurement when it corrects the clock.
	sameUpdate = 10 * time.Millisecond
)

// estimator turns observations into estimates. It reads no clock: time is what observations say.
type estimator struct {
	// driftFloorPPB is the least drift that is reckoned with; unknownAccuracy the error of a grandmaster that announces none.
	driftFloorPPB   int64
	unknownAccuracy time.Duration

	source      Source
	grandmaster string
	parts       Parts // as last measured, without drift
	offset      time.Duration
	pathDelay   time.Duration
	heard       string        // the grandmaster that ptp4l has turned to; none while it follows nobody
	turned      bool          // whether ptp4l has turned to it since the last measurement
	early       int64         // what ptp4l called the time of a Sync message when it first had a path delay to go with it
	leftOver    time.Duration // the offset when that was first heard of
	unchanged   int           // measurements for which it has stayed
	measured    int64         // what ptp4l called the time of the last measurement
	sampled     time.Time     // when it was made at the earliest; zero: there was none
	looked      time.Time     // the last observation
	gap         time.Duration
	lost        time.Time
	why         Fault

	offsets, delays, cards, frequency window
	driftPPB                          int64
	frequencyAtLoss                   float64

	steps    uint64
	lastStep time.Duration
	stepSeen time.Time
	// Who measured the clock before a step knows nothing of it.
	ptpStep, ntpStep   time.Duration // steps that ptp4l, chronyd have not measured away
	freshness, updates int           // measurements of ptp4l, chronyd since the last step
	compared           bool          // whether the card's clock was compared since
	updated            time.Time     // when chronyd measured last, as it says
}

func newEstimator(driftFloorPPB int64, unknownAccuracy time.Duration) *estimator {
	return &estimator{driftFloorPPB: driftFloorPPB, unknownAccuracy: unknownAccuracy, source: None, offsets: window{most: recent}, delays: window{most: delays}, cards: window{most: delays}, frequency: window{most: frequencies}}
}

// observe takes an observation and says what is known after it.
func (e *estimator) observe(o observation) Estimate {
	e.stepped(o)
	e.tracked(o)
	e.frequency.add(o.at, o.kernel.FrequencyPPB)
	faults := slices.Clone(o.faults)
	taken := e.takePTP(o, &faults) || e.takeNTP(o, &faults)
	if taken {
		e.lost, e.why = time.Time{}, Fault{}
		e.driftPPB = e.drift()
		e.frequencyAtLoss = o.kernel.FrequencyPPB
	} else {
		e.lose(o)
	}
	e.looked = o.at
	return e.estimate(o, faults)
}

func (e *estimator) stepped(o observation) {
	if o.step == 0 {
		return
	}
	e.steps++
	e.lastStep = o.step
	e.stepSeen = o.at
	e.parts.Step += o.step.Abs()
	e.ptpStep += o.step.Abs()
	e.ntpStep += o.step.Abs()
	e.freshness, e.updates, e.compared = 0, 0, false
	e.offsets.reset()
	e.cards.reset()
}

// tracked counts chronyd's measurements since the last step. chronyd itself notices a step by somebody else with its next one only, which
// may be many minutes later.
func (e *estimator) tracked(o observation) {
	if o.chrony == nil || !o.chrony.Synchronized || o.chrony.Updated.Sub(e.updated).Abs() < sameUpdate {
		return
	}
	e.updated = o.chrony.Updated
	if o.step != 0 {
		return
	}
	if e.updates++; e.updates >= freshAfterStep {
		e.ntpStep = 0
	}
}

// takePTP uses what ptp4l measured, if it did.
func (e *estimator) takePTP(o observation, faults *[]Fault) bool {
	status := o.ptp
	if status == nil {
		return false
	}
	accuracy, known := ptp4l.AccuracyOf(status.Accuracy)
	if !known {
		accuracy = e.unknownAccuracy
	}
	tai := taiError(status, o.kernel.TAIOffset, faults)
	port, measures := status.Measures()
	if !measures { // a ptp4l that may not be grandmaster goes on to name the one before
		e.heard = ""
	}
	if !status.Follows() {
		return e.takeGrandmaster(o, accuracy, tai, faults)
	}
	if !measures || status.Measured == 0 || e.unmeasured(status) {
		return false
	}
	e.turnTo(PTP, status.Grandmaster)
	card, read := e.cardError(o, port, faults)
	if !read {
		e.measured = status.Measured
		return false
	}
	if e.takeSample(o) {
		hops := max(1, status.StepsRemoved)
		e.delays.add(o.at, float64(status.PathDelay.Abs())*float64(hops))
	}
	if len(e.delays.samples) == 0 || o.at.Sub(e.sampled) > e.patience() {
		return false
	}
	e.parts = Parts{Offset: e.offset.Abs(), PathDelay: duration(e.delays.largest()), Accuracy: accuracy, Jitter: duration(e.offsets.jump()),
		Card: card, TAI: tai, Step: e.ptpStep}
	return true
}

// unmeasured tells whether ptp4l has not measured since it turned to its grandmaster. It computes an offset from a Sync message that comes
// when the path delay is known, but names the time of each Sync message and, by itself, the path delay: those that are first seen
// together go with the offset of the grandmaster before, or with none, which reads as 0.
//
// Behind a grandmaster before, which the same one may have been that comes back, the path delay stays, too, until the new one's was
// measured; then only an offset that changes is new.
func (e *estimator) unmeasured(status *ptp4l.Status) bool {
	if status.Grandmaster != e.heard {
		e.leftOver, e.unchanged, e.turned = status.Offset, 0, e.measured != 0
	}
	if status.Grandmaster != e.heard || status.PathDelay == 0 {
		e.heard, e.early = status.Grandmaster, 0
	}
	if status.PathDelay != 0 && e.early == 0 {
		e.early = status.Measured
	}
	if e.turned && status.Offset == e.leftOver && e.unchanged < enoughUnchanged {
		if status.Measured != e.measured { // else nothing was measured: looks may follow each other fast
			e.unchanged++
		}
		return true
	}
	if status.PathDelay == 0 || status.Measured == e.early {
		return true
	}
	e.turned = false
	return false
}

// takeSample remembers the measurement if it is a new one. It was made between the last look and this one; how old the first is that is
// ever seen, nothing tells.
func (e *estimator) takeSample(o observation) bool {
	fresh := o.ptp.Measured != e.measured && !e.looked.IsZero() && o.at.Sub(e.looked) <= staleAfter
	e.measured = o.ptp.Measured
	if !fresh {
		return false
	}
	earliest := e.looked
	if !e.sampled.IsZero() {
		e.gap = min(max(earliest.Sub(e.sampled), e.gap*7/8), longestInterval)
	}
	e.sampled, e.offset, e.pathDelay = earliest, o.ptp.Offset, o.ptp.PathDelay
	if e.freshness++; e.freshness >= freshAfterStep && e.compared {
		e.ptpStep = 0
	}
	e.offsets.add(o.at, float64(o.ptp.Offset))
	return true
}

// patience is for how long no new measurement is no loss.
func (e *estimator) patience() time.Duration { return max(staleAfter, 3*e.gap) }

// takeGrandmaster is for a clock that is the grandmaster itself. The time of its domain is its own, by definition, if it was made for
// that. Else it only hears nobody, and runs on.
func (e *estimator) takeGrandmaster(o observation, accuracy, tai time.Duration, faults *[]Fault) bool {
	port, serves := o.ptp.Reference()
	if !serves || !madeGrandmaster(o.ptp) {
		return false
	}
	e.turnTo(PTP, o.ptp.Grandmaster)
	card, read := e.cardError(o, port, faults) // which serves the time that phc2sys gives it
	if !read {
		return false
	}
	e.sampled, e.offset, e.pathDelay = o.at, 0, 0
	if e.compared {
		e.ptpStep = 0
	}
	e.parts = Parts{Accuracy: accuracy, Card: card, TAI: tai, Step: e.ptpStep}
	return true
}

// madeGrandmaster tells whether a clock was made to be one: it announces an accuracy, or a class other than those that everybody has.
func madeGrandmaster(status *ptp4l.Status) bool {
	const classDefault, classSlaveOnly = 248, 255
	_, announces := ptp4l.AccuracyOf(status.Accuracy)
	return status.Class != classSlaveOnly && (announces || status.Class != classDefault)
}

// cardError is how far the system's clock is from that of the card which PTP keeps. read is false if that is not known. A reading from
// before a step says nothing of the clock since.
func (e *estimator) cardError(o observation, port ptp4l.Port, faults *[]Fault) (bound time.Duration, read bool) {
	switch {
	case !port.Hardware:
		e.compared = true
		return 0, true
	case o.card == nil:
		*faults = append(*faults, o.noCard)
		return 0, false
	case !o.at.Add(-o.card.Age).After(e.stepSeen):
		return duration(e.cards.largest()), true
	}
	e.compared = true
	ahead := o.card.Ahead
	if o.ptp.PTPTimescale {
		ahead -= time.Duration(o.kernel.TAIOffset) * time.Second
	}
	e.cards.add(o.at, float64(ahead.Abs()+o.card.Exact))
	return duration(e.cards.largest()), true
}

// taiError is by how much CLOCK_TAI is wrong because the kernel has another offset than the grandmaster announces.
func taiError(status *ptp4l.Status, kernel int, faults *[]Fault) time.Duration {
	switch {
	case !status.UTCOffsetValid && status.PTPTimescale:
		noTAI("the grandmaster", kernel, faults)
		return 0
	case !status.UTCOffsetValid || status.UTCOffset == kernel:
		return 0
	}
	*faults = append(*faults, Fault{Reason: ReasonTAIOffset, Sentence: fmt.Sprintf("the grandmaster says that TAI - UTC is %d s, but the kernel "+
		"has %d s, so CLOCK_TAI is wrong by %d s; let ptp4l or phc2sys set it (the grandmaster must announce timeTraceable), or set it by adjtimex",
		status.UTCOffset, kernel, status.UTCOffset-kernel)})
	return time.Duration(status.UTCOffset-kernel).Abs() * time.Second
}

// noTAI is for a source that does not say by how much TAI is ahead: nobody has told the kernel, which has 0 since it started.
func noTAI(source string, kernel int, faults *[]Fault) {
	if kernel == 0 {
		*faults = append(*faults, Fault{Reason: ReasonTAIOffset, Sentence: fmt.Sprintf("the kernel's TAI - UTC is 0 s, and %s does not say what it is, "+
			"so transmit times (CLOCK_TAI) are wrong beside nodes that have another; set it (chronyd: leapsectz right/UTC; PTP: clock.ptp.utcOffset)", source)})
	}
}

// takeNTP uses what chronyd says, unless PTP kept the clock and its bound is still the smaller one.
func (e *estimator) takeNTP(o observation, faults *[]Fault) bool {
	tracking := o.chrony
	if tracking == nil || !tracking.Synchronized {
		return false
	}
	age := max(0, o.chronyAsked.Sub(tracking.Updated)) // since then it ages as all else
	parts := Parts{Offset: tracking.Offset.Abs(), Accuracy: tracking.RootDispersion + tracking.RootDelay/2,
		Drift: times(tracking.SkewPPB, age), Step: e.ntpStep}
	if e.source == PTP && !e.sampled.IsZero() && e.aged(o.at).Sum() < parts.Sum() {
		return false
	}
	e.turnTo(NTP, tracking.Reference)
	if o.ptp == nil { // which has said what is to be said
		noTAI("chronyd", o.kernel.TAIOffset, faults)
	}
	parts.Accuracy, parts.Drift = parts.Accuracy+parts.Drift, 0
	e.parts, e.sampled, e.offset, e.pathDelay = parts, o.chronyAsked, tracking.Offset, tracking.RootDelay
	return true
}

// turnTo forgets the measurements of another source. What may have been stepped since is measured anew by this one.
func (e *estimator) turnTo(source Source, grandmaster string) {
	if e.source == source && e.grandmaster == grandmaster {
		return
	}
	e.source, e.grandmaster = source, grandmaster
	e.offsets.reset()
	e.delays.reset()
	e.cards.reset()
	e.gap = 0
}

// lose notes that nobody keeps the clock any more, since the last measurement.
func (e *estimator) lose(o observation) {
	e.why = e.reason(o)
	if e.source == None || e.sampled.IsZero() {
		return
	}
	if e.lost.IsZero() {
		e.lost = e.sampled
	}
}

// drift is by how much the error may grow: the floor, how much the frequency was changed recently, and how the offset moved.
func (e *estimator) drift() int64 {
	ppb := e.frequency.spread() + math.Abs(e.offsets.slope()) // nanoseconds per second are billionths
	if len(e.frequency.samples) < enough {
		ppb += unseenPPB
	}
	return e.driftFloorPPB + int64(min(ppb, mostPPB))
}

// aged are the parts now.
func (e *estimator) aged(now time.Time) Parts {
	parts := e.parts
	parts.Drift += times(e.driftPPB, now.Sub(e.sampled))
	return parts
}

func (e *estimator) estimate(o observation, faults []Fault) Estimate {
	estimate := Estimate{At: o.at, Source: e.source, Lost: e.lost, Bound: -1, Grandmaster: e.grandmaster, TAIOffset: o.kernel.TAIOffset,
		Steps: e.steps, LastStep: e.lastStep, Faults: faults, Why: e.why, Kernel: o.kernel}
	if o.ptp != nil {
		estimate.Ports = o.ptp.Ports
	}
	if e.source == None || e.sampled.IsZero() {
		estimate.Source, estimate.Grandmaster = None, ""
		return estimate
	}
	if !e.lost.IsZero() { // whoever changes the rate of a clock that nobody keeps makes it worse
		changed := int64(min(mostPPB, math.Abs(o.kernel.FrequencyPPB-e.frequencyAtLoss)))
		e.driftPPB = max(e.driftPPB, e.drift()-e.driftFloorPPB, e.driftFloorPPB+changed)
	}
	estimate.Parts = e.aged(o.at)
	estimate.Bound, estimate.DriftPPB = estimate.Parts.Sum(), e.driftPPB
	estimate.Offset, estimate.PathDelay = e.offset, e.pathDelay
	return estimate
}

func times(ppb int64, age time.Duration) time.Duration {
	return time.Duration(math.Ceil(float64(ppb) * max(0, age).Seconds())) // billionths of seconds
}

func duration(nanoseconds float64) time.Duration {
	return time.Duration(min(nanoseconds, float64(math.MaxInt64/4)))
}
