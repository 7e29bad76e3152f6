// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/kernel"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/ptp4l"
)

// State says whether a clock can be believed, for somebody who asks for an error of at most so much.
type State string

// States of a clock.
const (
	// Synchronized : somebody keeps the clock, and the bound of its error is within what is asked for.
	Synchronized State = "Synchronized"
	// Holdover : nobody keeps the clock any more; the bound, which grows, is still within what is asked for, and so is the time
	// for which that may last.
	Holdover State = "Holdover"
	// Unsynchronized : the bound is beyond what is asked for, or the clock has been left alone for too long.
	Unsynchronized State = "Unsynchronized"
	// Unknown : nobody keeps the clock as far as can be seen, or nobody has said yet how well.
	Unknown State = "Unknown"
)

// Good tells whether times of the clock are believed.
func (s State) Good() bool { return s == Synchronized || s == Holdover }

// Source is who keeps a clock.
type Source string

// Sources of time.
const (
	PTP  Source = "PTP"
	NTP  Source = "NTP"
	None Source = "None"
)

// Estimate is what is known of a node's clock at one moment, whatever anybody asks of it.
type Estimate struct {
	// At is the moment, by the monotonic clock.
	At time.Time
	// Source is who keeps the clock, or kept it last; Lost since when nobody does, zero while somebody does.
	Source Source
	Lost   time.Time
	// Offset is the last measured difference from the source.
	Offset time.Duration
	// Bound of the error: |offset| + path delay + the grandmaster's accuracy + the recent maximum of the jitter + drift times
	// age. Below zero: not known.
	Bound time.Duration
	// DriftPPB is by how much the error may grow, in billionths, while nobody keeps the clock.
	DriftPPB int64
	// Grandmaster is the clock identity of PTP's, or the reference of NTP.
	Grandmaster string
	// PathDelay is the mean delay to the source; 0 where it is not known.
	PathDelay time.Duration
	// TAIOffset is CLOCK_TAI - CLOCK_REALTIME in seconds.
	TAIOffset int
	// Steps counts jumps of CLOCK_TAI that were seen; LastStep is the size of the last one, and its direction.
	Steps    uint64
	LastStep time.Duration
	// Faults are sentences about what is wrong with how the clock is kept, such as two programs that set it.
	Faults []Fault
	// Why nobody keeps the clock, or nothing is known of it; empty while somebody does.
	Why Fault
	// Parts of the bound, Ports of ptp4l, and what the kernel knows, for who wants to see more.
	Parts  Parts
	Ports  []ptp4l.Port
	Kernel kernel.State
}

// Parts are what a bound is the sum of.
type Parts struct {
	// Offset is the last one's absolute value; PathDelay that of the whole path, because PTP cannot see by how much it differs between
	// its directions.
	Offset, PathDelay time.Duration
	// Accuracy of the grandmaster, as it announces it; with NTP, the dispersion and half of the delay up to the source of all time.
	Accuracy time.Duration
	// Jitter is the largest recent change of the offset from one measurement to the next.
	Jitter time.Duration
	// Card is the difference of the network card's clock, which PTP keeps, from the system's.
	Card time.Duration
	// TAI is what is wrong with CLOCK_TAI - CLOCK_REALTIME.
	TAI time.Duration
	// Step is by how much the clock was stepped since it was measured.
	Step time.Duration
	// Drift is that of the clock times the age of the last measurement.
	Drift time.Duration
}

// Sum of the parts.
func (p Parts) Sum() time.Duration {
	return p.Offset + p.PathDelay + p.Accuracy + p.Jitter + p.Card + p.TAI + p.Step + p.Drift
}

// Fault is something that is wrong with how a clock is kept.
type Fault struct {
	// Reason in the form of a condition's, such as TwoClockMasters; Sentence says where and what to do.
	Reason   string `json:"reason"`
	Sentence string `json:"sentence"`
}

// Need is what somebody asks of a clock.
type Need struct {
	// MaxError is the largest bound of the error with which times are believed.
	MaxError time.Duration
	// Holdover is for how long a clock that nobody keeps is believed at most.
	Holdover time.Duration
}

// Verdict is what an estimate means for a need.
type Verdict struct {
	State State
	// Since when it is so.
	Since time.Time
	// Reason in the form of a condition's; Sentence says what is wrong and what to do, empty while Synchronized.
	Reason, Sentence string
}

// Largest is the largest part, and its name.
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
