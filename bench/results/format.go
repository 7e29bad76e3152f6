// SPDX-License-Identifier: Apache-2.0

package results

import (
	"fmt"
	"math"
	"slices"
)

// Units of figures.
const (
	UnitRatio    = "ratio"
	UnitShare    = "share"
	UnitNs       = "ns"
	UnitCores    = "cores"
	UnitMessages = "messages"
)

// Independent is the key of a value that does not depend on the payload.
const Independent = "-"

// Micros formats nanoseconds as microseconds with about three digits.
func Micros(ns int64) string {
	us := float64(ns) / 1000
	switch size := math.Abs(us); {
	case size >= 100:
		return fmt.Sprintf("%.0f", us)
	case size >= 10:
		return fmt.Sprintf("%.1f", us)
	default:
		return fmt.Sprintf("%.2f", us)
	}
}

// Amount formats a value or limit of a figure in a readable unit.
func (f *Figure) Amount(value float64) string {
	switch f.Unit {
	case UnitNs:
		return Micros(int64(value)) + " µs"
	case UnitShare:
		return fmt.Sprintf("%.4f %%", value*100)
	case UnitMessages:
		return fmt.Sprintf("%.0f", value)
	case UnitCores:
		return fmt.Sprintf("%.4f", value)
	default:
		return fmt.Sprintf("%.2f", value)
	}
}

// SpinningTalkers describes how the talkers of spinning paths were scheduled, "" if there were none.
func (s *Summary) SpinningTalkers() string {
	if !slices.ContainsFunc(s.Runs, func(run *Run) bool { return Spins(run.Path) }) {
		return ""
	}
	scheduler := "SCHED_OTHER"
	if s.Setup.FIFOPriority > 0 {
		scheduler = fmt.Sprintf("SCHED_FIFO priority %d", s.Setup.FIFOPriority)
	}
	return fmt.Sprintf("%s, awake %d µs before each send", scheduler, s.Setup.SpinNs/1000)
}
