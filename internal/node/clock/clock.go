// SPDX-License-Identifier: Apache-2.0

package clock

import "time"

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
	// Steps counts jumps of CLOCK_REALTIME that were seen; LastStep is the size of the last one, and its direction.
	Steps    uint64
	LastStep time.Duration
	// Faults are sentences about what is wrong with how the clock is kept, such as two programs that set it.
	Faults []Fault
}

// Fault is something that is wrong with how a clock is kept.
type Fault struct {
	// Reason in the form of a condition's, such as TwoClockMasters; Sentence says where and what to do.
	Reason, Sentence string
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
