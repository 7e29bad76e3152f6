// SPDX-License-Identifier: Apache-2.0

package guestclock

import (
	"math"
	"sync"
	"time"
)

// Counter is what exchanges say of a guest's counter: it is the host's plus a constant between Least and Most.
type Counter struct {
	Exchanges   int
	Least, Most int64
}

// Narrow takes what one exchange says: the guest read its counter after the host's Before and before the host's After.
func (c *Counter) Narrow(one Exchange) {
	least, most := int64(one.Guest-one.After), int64(one.Guest-one.Before)
	if c.Exchanges == 0 {
		c.Least, c.Most = math.MinInt64, math.MaxInt64
	}
	c.Exchanges++
	c.Least, c.Most = max(c.Least, least), min(c.Most, most)
}

// Width is the uncertainty of the constant. Below zero: there is none.
func (c *Counter) Width() int64 { return c.Most - c.Least }

// Uncertainty is the width as a time.
func (c *Counter) Uncertainty() time.Duration { return Duration(c.Width()) }

// Host is what the host's counter was when the guest's was that.
func (c *Counter) Host(guest uint64) int64 { return int64(guest) - c.Least - c.Width()/2 }

// Hertz is the rate of the host's counter by CLOCK_MONOTONIC. A figure of ours, for the guests' kernels to reckon with: what matters
// are the guests' differences.
var Hertz = sync.OnceValue(func() float64 {
	first, began := TSC(), time.Now()
	time.Sleep(300 * time.Millisecond)
	return float64(TSC()-first) / time.Since(began).Seconds()
})

// Duration of so many ticks of the host's counter.
func Duration(ticks int64) time.Duration { return time.Duration(float64(ticks) / Hertz() * 1e9) }

// Reading is what a guest's clock said at a moment.
type Reading struct {
	// Host is the host's counter, Within the uncertainty to both sides, both in ticks.
	Host, Within int64
	// TAI is the guest's CLOCK_TAI in nanoseconds.
	TAI int64
}

// Reading is a sample by the host's counter.
func (c *Counter) Reading(sample *Sample) Reading {
	took := int64(sample.Between - sample.Before)
	return Reading{Host: c.Host(sample.Before) + took/2, Within: (took + c.Width() + 1) / 2, TAI: sample.TAI}
}
