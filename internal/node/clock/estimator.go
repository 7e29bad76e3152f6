// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/ptp4l"
)

// estimator turns observations into estimates. It reads no clock: the time is that of the observations.
//
//	state    entered when                                                            source     lost             bound
//	unknown  at the start                                                            None       -                -1
//	kept     ptp4l has measured its grandmaster within patience, or is a             PTP, NTP   -                parts + drift since the measurement
//	         grandmaster by configuration, or chronyd is synchronised and its
//	         bound is smaller than that of the last PTP measurement
//	lost     none of that holds any more                                             as before  the measurement  grows with the drift, which may grow
//
// Another source or grandmaster resets the delay tracker; a step adds its size to the bound until the source has measured it away.
type estimator struct {
	unknownAccuracy time.Duration // of a grandmaster that announces none

	master masterTracker
	delay  delayTracker
	drift  driftTracker
	steps  stepTracker

	source      Source
	grandmaster string
	// sampled is the earliest time at which the last measurement can have been made, zero if there was none.
	sampled           time.Time
	parts             Parts // as last measured, without drift
	offset, pathDelay time.Duration
	observed          time.Time // the last observation
	lost              time.Time // the last measurement, while nobody keeps the clock
	why               Fault
}

func newEstimator(driftFloorPPB int64, unknownAccuracy time.Duration) *estimator {
	return &estimator{unknownAccuracy: unknownAccuracy, source: None, delay: newDelayTracker(), drift: newDriftTracker(driftFloorPPB)}
}

// observe takes an observation and returns the estimate after it.
func (e *estimator) observe(o observation) Estimate {
	if o.step != 0 {
		e.steps.step(o.at, o.step)
		e.parts.Step += o.step.Abs()
		e.delay.offsets.reset()
		e.delay.cards.reset()
	}
	e.steps.updatedNTP(o)
	e.drift.frequency.add(o.at, o.kernel.FrequencyPPB)
	faults := slices.Clone(o.faults)
	if e.takePTP(o, &faults) || e.takeNTP(o, &faults) {
		e.lost, e.why = time.Time{}, Fault{}
		e.drift.measured(o.kernel.FrequencyPPB, e.delay.offsets.slope()) // nanoseconds per second are billionths
	} else {
		e.why = e.reason(o)
		if e.lost.IsZero() && e.source != None {
			e.lost = e.sampled
		}
	}
	e.observed = o.at
	return e.estimate(o, faults)
}

// takePTP uses the measurement of ptp4l, and reports whether there was a usable one.
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
	if !measures { // a ptp4l that may not be grandmaster keeps reporting the former one
		e.master.grandmaster = ""
	}
	if !status.Follows() {
		return e.takeGrandmaster(o, accuracy, tai, faults)
	}
	if !measures || !e.master.hasMeasured(status) {
		return false
	}
	e.turnTo(PTP, status.Grandmaster)
	card, read := e.cardError(o, port, faults)
	if !read {
		e.master.measured = status.Measured
		return false
	}
	if e.takeSample(o) {
		hops := max(1, status.StepsRemoved)
		e.delay.delays.add(o.at, float64(status.PathDelay.Abs())*float64(hops))
	}
	if len(e.delay.delays.samples) == 0 || o.at.Sub(e.sampled) > e.delay.patience() {
		return false
	}
	e.parts = Parts{Offset: e.offset.Abs(), PathDelay: duration(e.delay.delays.largest()), Accuracy: accuracy, Jitter: duration(e.delay.offsets.jump()),
		Card: card, TAI: tai, Step: e.steps.ptp}
	return true
}

// takeSample adds the measurement if it is a new one. It was made between the last observation and this one; the age of the first one ever
// observed is not known.
func (e *estimator) takeSample(o observation) bool {
	fresh := o.ptp.Measured != e.master.measured && !e.observed.IsZero() && o.at.Sub(e.observed) <= staleAfter
	e.master.measured = o.ptp.Measured
	if !fresh {
		return false
	}
	e.delay.sampled(e.sampled, e.observed)
	e.sampled, e.offset, e.pathDelay = e.observed, o.ptp.Offset, o.ptp.PathDelay
	e.steps.sampledPTP()
	e.delay.offsets.add(o.at, float64(o.ptp.Offset))
	return true
}

// takeGrandmaster uses a clock that is the grandmaster itself. If it is configured for that, its time is by definition that of the domain.
// Otherwise it just receives no Announce messages, and runs freely.
func (e *estimator) takeGrandmaster(o observation, accuracy, tai time.Duration, faults *[]Fault) bool {
	port, serves := o.ptp.Reference()
	if !serves || !madeGrandmaster(o.ptp) {
		return false
	}
	e.turnTo(PTP, o.ptp.Grandmaster)
	card, read := e.cardError(o, port, faults) // phc2sys gives the card its time
	if !read {
		return false
	}
	e.sampled, e.offset, e.pathDelay = o.at, 0, 0
	if e.steps.cardCompared {
		e.steps.ptp = 0
	}
	e.parts = Parts{Accuracy: accuracy, Card: card, TAI: tai, Step: e.steps.ptp}
	return true
}

// madeGrandmaster reports whether a clock is configured to be a grandmaster: it announces an accuracy, or a class other than the defaults.
func madeGrandmaster(status *ptp4l.Status) bool {
	const classDefault, classSlaveOnly = 248, 255
	_, announces := ptp4l.AccuracyOf(status.Accuracy)
	return status.Class != classSlaveOnly && (announces || status.Class != classDefault)
}

// cardError returns how far the system's clock is from that of the card which PTP keeps. read is false if that is not known. A reading from
// before a step does not count after it.
func (e *estimator) cardError(o observation, port ptp4l.Port, faults *[]Fault) (bound time.Duration, read bool) {
	switch {
	case !port.Hardware:
		e.steps.cardCompared = true
		return 0, true
	case o.card == nil:
		*faults = append(*faults, o.noCard)
		return 0, false
	case !o.at.Add(-o.card.Age).After(e.steps.at):
		return duration(e.delay.cards.largest()), true
	}
	e.steps.cardCompared = true
	ahead := o.card.Ahead
	if o.ptp.PTPTimescale {
		ahead -= time.Duration(o.kernel.TAIOffset) * time.Second
	}
	e.delay.cards.add(o.at, float64(ahead.Abs()+o.card.Exact))
	return duration(e.delay.cards.largest()), true
}

// taiError returns the error of CLOCK_TAI where the kernel's offset is not the one that the grandmaster announces.
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

// noTAI adds a fault if the source does not announce TAI - UTC and the kernel still has the 0 of its start.
func noTAI(source string, kernel int, faults *[]Fault) {
	if kernel == 0 {
		*faults = append(*faults, Fault{Reason: ReasonTAIOffset, Sentence: fmt.Sprintf("the kernel's TAI - UTC is 0 s, and %s does not say what it is, "+
			"so transmit times (CLOCK_TAI) are wrong beside nodes that have another; set it (chronyd: leapsectz right/UTC; PTP: clock.ptp.utcOffset)", source)})
	}
}

// takeNTP uses what chronyd reports, unless PTP kept the clock and its bound is still the smaller one.
func (e *estimator) takeNTP(o observation, faults *[]Fault) bool {
	tracking := o.chrony
	if tracking == nil || !tracking.Synchronized {
		return false
	}
	age := max(0, o.chronyAsked.Sub(tracking.Updated)) // from then on it ages like everything else
	parts := Parts{Offset: tracking.Offset.Abs(), Accuracy: tracking.RootDispersion + tracking.RootDelay/2,
		Drift: times(tracking.SkewPPB, age), Step: e.steps.ntp}
	if e.source == PTP && !e.sampled.IsZero() && e.aged(o.at).Sum() < parts.Sum() {
		return false
	}
	e.turnTo(NTP, tracking.Reference)
	if o.ptp == nil { // otherwise taiError has reported it
		noTAI("chronyd", o.kernel.TAIOffset, faults)
	}
	parts.Accuracy, parts.Drift = parts.Accuracy+parts.Drift, 0
	e.parts, e.sampled, e.offset, e.pathDelay = parts, o.chronyAsked, tracking.Offset, tracking.RootDelay
	return true
}

// turnTo resets the measurements if they are another source's.
func (e *estimator) turnTo(source Source, grandmaster string) {
	if e.source != source || e.grandmaster != grandmaster {
		e.source, e.grandmaster = source, grandmaster
		e.delay.reset()
	}
}

// aged returns the parts now.
func (e *estimator) aged(now time.Time) Parts {
	parts := e.parts
	parts.Drift += times(e.drift.ppb, now.Sub(e.sampled))
	return parts
}

func (e *estimator) estimate(o observation, faults []Fault) Estimate {
	estimate := Estimate{At: o.at, Source: e.source, Lost: e.lost, Bound: -1, Grandmaster: e.grandmaster, TAIOffset: o.kernel.TAIOffset,
		Steps: e.steps.count, LastStep: e.steps.last, Faults: faults, Why: e.why, Kernel: o.kernel}
	if o.ptp != nil {
		estimate.Ports = o.ptp.Ports
	}
	if e.source == None || e.sampled.IsZero() {
		estimate.Source, estimate.Grandmaster = None, ""
		return estimate
	}
	if !e.lost.IsZero() {
		e.drift.lost(o.kernel.FrequencyPPB, e.delay.offsets.slope())
	}
	estimate.Parts = e.aged(o.at)
	estimate.Bound, estimate.DriftPPB = estimate.Parts.Sum(), e.drift.ppb
	estimate.Offset, estimate.PathDelay = e.offset, e.pathDelay
	return estimate
}

// times returns the error that a drift makes in a time.
func times(ppb int64, age time.Duration) time.Duration {
	return time.Duration(math.Ceil(float64(ppb) * max(0, age).Seconds())) // billionths of seconds
}

func duration(nanoseconds float64) time.Duration {
	return time.Duration(min(nanoseconds, float64(math.MaxInt64/4)))
}
