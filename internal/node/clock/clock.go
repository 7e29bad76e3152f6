// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/kernel"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/ptp4l"
)

// State is whether a clock is good enough for a largest error.
type State string

// States of a clock.
const (
	// Synchronized : the clock has a source, and the bound of its error is within the limit.
	Synchronized State = "Synchronized"
	// Holdover : the source is lost; the growing bound, and the time without a source, are still within the limits.
	Holdover State = "Holdover"
	// Unsynchronized : the bound is beyond the limit, or the source has been lost for too long.
	Unsynchronized State = "Unsynchronized"
	// Unknown : no source was found, or none has reported an accuracy yet.
	Unknown State = "Unknown"
)

// Good reports whether times of the clock are used.
func (s State) Good() bool { return s == Synchronized || s == Holdover }

// Source is the protocol that keeps a clock synchronised.
type Source string

// Sources of time.
const (
	PTP  Source = "PTP"
	NTP  Source = "NTP"
	None Source = "None"
)

// Estimate is the state of a node's clock at one moment, independent of any need.
type Estimate struct {
	// At is the moment, by the monotonic clock.
	At time.Time
	// Source is the present source, or the last one; Lost is when it was lost, zero while it is not.
	Source Source
	Lost   time.Time
	// Offset is the last measured difference from the source.
	Offset time.Duration
	// Bound of the error: |offset| + path delay + the grandmaster's accuracy + the recent maximum of the jitter + drift times
	// age. Below zero: not known.
	Bound time.Duration
	// DriftPPB is how fast the error may grow, in billionths, without a source.
	DriftPPB int64
	// Grandmaster is the clock identity of PTP's grandmaster, or the reference ID of NTP.
	Grandmaster string
	// PathDelay is the mean delay to the source, 0 if it is not known.
	PathDelay time.Duration
	// TAIOffset is CLOCK_TAI - CLOCK_REALTIME in seconds.
	TAIOffset int
	// Steps counts the steps of CLOCK_TAI; LastStep is the signed size of the last one.
	Steps    uint64
	LastStep time.Duration
	// Faults are problems of the synchronisation, such as two programs that set the clock.
	Faults []Fault
	// Why is why there is no source, empty while there is one.
	Why Fault
	// Parts are those of the bound, Ports are ptp4l's, Kernel is the kernel's view.
	Parts  Parts
	Ports  []ptp4l.Port
	Kernel kernel.State
}

// Parts are the summands of a bound.
type Parts struct {
	// Offset is the absolute value of the last offset; PathDelay is the delay of the whole path, because PTP cannot measure its asymmetry.
	Offset, PathDelay time.Duration
	// Accuracy is the one that the grandmaster announces; with NTP, the root dispersion and half of the root delay.
	Accuracy time.Duration
	// Jitter is the largest recent change of the offset from one measurement to the next.
	Jitter time.Duration
	// Card is the difference of the network card's clock, which PTP keeps, from the system's.
	Card time.Duration
	// TAI is the error of CLOCK_TAI - CLOCK_REALTIME.
	TAI time.Duration
	// Step is the sum of the steps since the last measurement.
	Step time.Duration
	// Drift is the drift times the age of the last measurement.
	Drift time.Duration
}

// Sum returns the sum of the parts.
func (p Parts) Sum() time.Duration {
	return p.Offset + p.PathDelay + p.Accuracy + p.Jitter + p.Card + p.TAI + p.Step + p.Drift
}

// Fault is a problem of the synchronisation of a clock.
type Fault struct {
	// Reason is in the form of a condition's, such as TwoClockMasters; Sentence names the place and the remedy.
	Reason   string `json:"reason"`
	Sentence string `json:"sentence"`
}

// Need is a requirement of a clock.
type Need struct {
	// MaxError is the largest bound of the error with which times are used.
	MaxError time.Duration
	// Holdover is how long a clock without a source is used at most.
	Holdover time.Duration
}

// Verdict is the state of a clock for a need.
type Verdict struct {
	State State
	// Since is the time of the last change of State.
	Since time.Time
	// Reason is in the form of a condition's; Sentence names the problem and the remedy, empty while Synchronized.
	Reason, Sentence string
}

// Largest returns the name and the value of the largest part.
func (p Parts) Largest() (string, time.Duration) {
	name, largest := "the offset", p.Offset
	for _, part := range []struct {
		name  string
		value time.Duration
	}{{"the path delay", p.PathDelay}, {"the accuracy of the source", p.Accuracy}, {"the jitter", p.Jitter},
		{"the network card's clock", p.Card}, {"the TAI offset", p.TAI}, {"a step of the clock", p.Step}, {"the drift", p.Drift}} {
		if part.value > largest {
			name, largest = part.name, part.value
		}
	}
	return name, largest
}
