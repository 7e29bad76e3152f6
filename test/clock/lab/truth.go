// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package lab

import (
	"math"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab/guestclock"
)

// Readings returns the readings of the guest's clock from a number on.
func (g *Guest) Readings(from int) []guestclock.Reading {
	samples := g.page.Samples(from)
	readings := make([]guestclock.Reading, len(samples))
	for i := range samples {
		readings[i] = g.counter.Reading(&samples[i])
	}
	return readings
}

// Jump returns the step of a clock between two readings, 0 if it kept its rate within the 10 % by which ptp4l changes
// it at most.
func Jump(before, after guestclock.Reading) time.Duration {
	passed, went := guestclock.Duration(after.Host-before.Host), time.Duration(after.TAI-before.TAI)
	if jump := went - passed; jump.Abs() > passed/8+time.Millisecond {
		return jump
	}
	return 0
}

// Truth is the time of a grandmaster, by definition that of its domain.
type Truth struct {
	readings []guestclock.Reading
}

// NewTruth returns the truth of a grandmaster's readings.
func NewTruth(readings []guestclock.Reading) *Truth { return &Truth{readings} }

// At returns the true time in TAI nanoseconds at a value of the host's counter, between two readings, and its
// uncertainty. known is false before the first and after the last reading, and if the clock was stepped or its guest
// stood still.
func (t *Truth) At(host int64) (tai int64, within time.Duration, known bool) {
	behind, _ := slices.BinarySearchFunc(t.readings, host, func(r guestclock.Reading, host int64) int {
		if r.Host <= host {
			return -1
		}
		return 1
	})
	if behind == 0 || behind == len(t.readings) {
		return 0, 0, false
	}
	before, after := t.readings[behind-1], t.readings[behind]
	const longest = 2 * time.Second
	if Jump(before, after) != 0 || guestclock.Duration(after.Host-before.Host) > longest {
		return 0, 0, false
	}
	part := float64(host-before.Host) / float64(after.Host-before.Host)
	return before.TAI + int64(math.Round(part*float64(after.TAI-before.TAI))), guestclock.Duration(max(before.Within, after.Within)), true
}

// Error returns the error of a reading, and its uncertainty.
func (t *Truth) Error(reading guestclock.Reading) (wrong, within time.Duration, known bool) {
	tai, within, known := t.At(reading.Host)
	return time.Duration(reading.TAI - tai), within + guestclock.Duration(reading.Within), known
}
