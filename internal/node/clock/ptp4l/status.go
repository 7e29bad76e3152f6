// SPDX-License-Identifier: Apache-2.0

package ptp4l

import (
	"time"

	ptp "github.com/facebook/time/ptp/protocol"
)

// Status is what a ptp4l says of its clock.
type Status struct {
	// Identity is the clock's own, Grandmaster that of the clock which it follows: its own if it follows none.
	Identity, Grandmaster string
	// Offset from the master by the last Sync message; Measured is the time of that message by the clock which the ports stamp with,
	// in nanoseconds, and 0 while nothing was measured. It changes with each Sync.
	Offset   time.Duration
	Measured int64
	// PathDelay is the mean delay to the next clock on the path to the grandmaster, which is StepsRemoved clocks away.
	PathDelay    time.Duration
	StepsRemoved int
	// Class and Accuracy are those that the grandmaster announces (clockClass, clockAccuracy of IEEE 1588).
	Class, Accuracy uint8
	// UTCOffset is TAI - UTC in seconds as the grandmaster says, if UTCOffsetValid. PTPTimescale: the domain's time is TAI, not
	// something of the grandmaster's own.
	UTCOffset                    int
	UTCOffsetValid, PTPTimescale bool
	// Ports by their numbers.
	Ports []Port
}

// Follows tells whether the clock has a grandmaster other than itself.
func (s *Status) Follows() bool { return s.Grandmaster != s.Identity }

// Port is one of a ptp4l's.
type Port struct {
	Number int `json:"number"`
	// Interface is the network interface; State that of IEEE 1588, such as SLAVE.
	Interface string `json:"interface"`
	State     string `json:"state"`
	// Hardware tells whether the interface stamps packets, by its own clock.
	Hardware bool `json:"hardwareTimestamping"`
}

// States of ports that tell whether a clock is measured. A ptp4l that may not adjust its clock (free_running 1) stays in Uncalibrated:
// it measures, and says by that state that the servo is not locked.
const (
	Slave        = "SLAVE"
	Uncalibrated = "UNCALIBRATED"
	Master       = "MASTER"
)

// Measures is the port that measures the clock's offset.
func (s *Status) Measures() (Port, bool) {
	for _, port := range s.Ports {
		if port.State == Slave || port.State == Uncalibrated {
			return port, true
		}
	}
	return Port{}, false
}

// Reference is the port whose time stamps are those of the clock that the grandmaster's is compared with: the one that measures, or, on a
// grandmaster, one that serves.
func (s *Status) Reference() (Port, bool) {
	if port, measures := s.Measures(); measures {
		return port, true
	}
	for _, port := range s.Ports {
		if port.State == Master {
			return port, true
		}
	}
	return Port{}, false
}

// AccuracyOf is the error that a clockAccuracy of IEEE 1588 (table 5) stands for. known is false for values that stand for none.
func AccuracyOf(accuracy uint8) (bound time.Duration, known bool) {
	first, last := uint8(ptp.ClockAccuracyNanosecond25), uint8(ptp.ClockAccuracySecond10)
	switch {
	case accuracy >= first && accuracy <= last:
		return ptp.ClockAccuracy(accuracy).Duration(), true
	case accuracy >= firstOfPicoseconds && accuracy < first: // 1 ps to 2.5 ns, since IEEE 1588-2019
		return ptp.ClockAccuracyNanosecond25.Duration(), true
	}
	return 0, false
}

const firstOfPicoseconds = 0x17
