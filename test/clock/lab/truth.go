// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package lab

import (
	"math"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/test/clock/shared"
)

// Reading is what a guest's clock said at a moment.
type Reading struct {
	// Host is the host's counter, Within the uncertainty to both sides, both in ticks.
	Host, Within int64
	// TAI is the guest's CLOCK_TAI in nanoseconds.
	TAI int64
}

// Readings are those of the guest's clock so far, the first at that number.
func (g *Guest) Readings(from int) []Reading {
	samples := g.page.Samples(from)
	readings := make([]Reading, len(samples))
	for i := range samples {
		readings[i] = g.counter.reading(&samples[i])
	}
	return readings
}

func (c *Counter) reading(sample *shared.Sample) Reading {
	took := int64(sample.Between - sample.Before)
	return Reading{Host: c.host(sample.Before) + took/2, Within: (took + c.Width() + 1) / 2, TAI: sample.TAI}
}

// Jump is by how much a clock was stepped between two readings; 0 if it went on at its rate, give or take the 10 % by which ptp4l
// changes it at most.
func Jump(before, after Reading) time.Duration {
	passed, went := duration(after.Host-before.Host), time.Duration(after.TAI-before.TAI)
	if jump := went - passed; jump.Abs() > passed/8+time.Millisecond {
		return jump
	}
	return 0
}

// Truth is the time of a grandmaster, which is that of its domain by definition.
type Truth struct {
	readings []Reading
}

// NewTruth takes it from what the grandmaster's clock said.
func NewTruth(readings []Reading) *Truth { return &Truth{readings} }

// At is the true time in TAI nanoseconds when the host's counter was that, between two readings, and how uncertain it is. known is
// false before the first and after the last reading, and where the clock was stepped or its guest stood still.
func (t *Truth) At(host int64) (tai int64, within time.Duration, known bool) {
	behind, _ := slices.BinarySearchFunc(t.readings, host, func(r Reading, host int64) int {
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
	if Jump(before, after) != 0 || duration(after.Host-before.Host) > longest {
		return 0, 0, false
	}
	part := float64(host-before.Host) / float64(after.Host-before.Host)
	return before.TAI + int64(math.Round(part*float64(after.TAI-before.TAI))), duration(max(before.Within, after.Within)), true
}

// Error is how far a reading is from the truth, and how uncertain that is.
func (t *Truth) Error(reading Reading) (wrong, within time.Duration, known bool) {
	tai, within, known := t.At(reading.Host)
	return time.Duration(reading.TAI - tai), within + duration(reading.Within), known
}
