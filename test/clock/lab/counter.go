// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package lab

import (
	"math"
	"sync"
	"time"

	"github.com/kubernetsn/kubernetsn/test/clock/shared"
)

// Counter is what exchanges say of a guest's counter: it is the host's plus a constant between Least and Most.
type Counter struct {
	Exchanges   int
	Least, Most int64
}

// Narrow takes what one exchange says: the guest read its counter after the host's Before and before the host's After.
func (c *Counter) Narrow(one shared.Exchange) {
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
func (c *Counter) Uncertainty() time.Duration { return duration(c.Width()) }

// host is what the host's counter was when the guest's was that.
func (c *Counter) host(guest uint64) int64 { return int64(guest) - c.Least - c.Width()/2 }

// hertz is the rate of the host's counter by CLOCK_MONOTONIC. A figure of ours, for the guests' kernels to reckon with: what matters
// are the guests' differences.
var hertz = sync.OnceValue(func() float64 {
	first, began := shared.TSC(), time.Now()
	time.Sleep(300 * time.Millisecond)
	return float64(shared.TSC()-first) / time.Since(began).Seconds()
})

// kiloHertz is the rate that a guest's kernel is told, so that its clock is so much too fast.
func kiloHertz(ppm int) int64 { return int64(math.Round(hertz() / 1e3 * (1 - float64(ppm)/1e6))) }

// duration of so many ticks of the host's counter.
func duration(ticks int64) time.Duration { return time.Duration(float64(ticks) / hertz() * 1e9) }
