// SPDX-License-Identifier: Apache-2.0

package guestclock

import (
	"math"
	"sync"
	"time"
)

// Counter is the relation between a guest's counter and the host's: the guest's is the host's plus a constant between
// Least and Most.
type Counter struct {
	Exchanges   int
	Least, Most int64
}

// Narrow narrows the range of the constant by an exchange: the guest read its counter after the host's Before and
// before the host's After.
func (c *Counter) Narrow(exchange Exchange) {
	least, most := int64(exchange.Guest-exchange.After), int64(exchange.Guest-exchange.Before)
	if c.Exchanges == 0 {
		c.Least, c.Most = math.MinInt64, math.MaxInt64
	}
	c.Exchanges++
	c.Least, c.Most = max(c.Least, least), min(c.Most, most)
}

// Width is the uncertainty of the constant in ticks. A negative width is a contradiction: there is no such constant.
func (c *Counter) Width() int64 { return c.Most - c.Least }

// Uncertainty is the width as a duration.
func (c *Counter) Uncertainty() time.Duration { return Duration(c.Width()) }

// Host returns the host's counter when the guest's had a value.
func (c *Counter) Host(guest uint64) int64 { return int64(guest) - c.Least - c.Width()/2 }

// Hertz is the measured rate of the host's counter by CLOCK_MONOTONIC. The guests' kernels calculate with it; only
// differences between guests matter.
var Hertz = sync.OnceValue(func() float64 {
	first, began := TSC(), time.Now()
	time.Sleep(300 * time.Millisecond)
	return float64(TSC()-first) / time.Since(began).Seconds()
})

// Duration converts ticks of the host's counter.
func Duration(ticks int64) time.Duration { return time.Duration(float64(ticks) / Hertz() * 1e9) }

// Reading is the reading of a guest's clock at a moment.
type Reading struct {
	// Host is the host's counter, Within the uncertainty to both sides, both in ticks.
	Host, Within int64
	// TAI is the guest's CLOCK_TAI in nanoseconds.
	TAI int64
}

// Reading converts a sample to a reading by the host's counter.
func (c *Counter) Reading(sample *Sample) Reading {
	took := int64(sample.Between - sample.Before)
	return Reading{Host: c.Host(sample.Before) + took/2, Within: (took + c.Width() + 1) / 2, TAI: sample.TAI}
}
