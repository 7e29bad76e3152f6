// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package lab

import (
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab/guestclock"
)

// Comparison compares a guest's beliefs with the true error of its clock.
type Comparison struct {
	// Bounds and Errors have one element for each reading of the clock with a trusted bound; Errors are absolute.
	Bounds, Errors []time.Duration
	// Uncertainty is the largest uncertainty of the true errors.
	Uncertainty time.Duration
	// Wrong are the readings at which the true error, minus its uncertainty, exceeded the bound.
	Wrong []Mistake
	// Unseen is the longest time from a step of the clock to the belief that counts it. Readings in between are not
	// compared.
	Unseen time.Duration
	Steps  int
}

// Mistake is a reading at which the bound was wrong.
type Mistake struct {
	Reading            guestclock.Reading
	Error, Uncertainty time.Duration
	Bound              time.Duration
	Belief             Belief
}

// Age returns the age of the belief.
func (m *Mistake) Age() time.Duration { return guestclock.Duration(m.Reading.Host - m.Belief.Host) }

// Compare compares readings with the beliefs at their times. truths maps grandmasters' identities, which beliefs name,
// to their times. A step of the clock is detected by the first belief that counts one more.
func Compare(readings []guestclock.Reading, beliefs []Belief, truths map[string]*Truth) *Comparison {
	c := &Comparison{}
	var step unseen
	next := 0 // beliefs up to this reading
	for i, reading := range readings {
		before := next // up to the one before
		for next < len(beliefs) && beliefs[next].Host <= reading.Host {
			c.see(&step, &beliefs[next])
			next++
		}
		if i > 0 && before > 0 && Jump(readings[i-1], reading) != 0 {
			c.Steps++
			step.happen(reading.Host, beliefs[before-1].Steps)
			c.see(&step, &beliefs[next-1])
		}
		if next > 0 && !step.happened {
			c.compare(reading, &beliefs[next-1], truths)
		}
	}
	if step.happened {
		c.Unseen = max(c.Unseen, guestclock.Duration(readings[len(readings)-1].Host-step.host))
	}
	return c
}

// unseen is a step that no belief has counted yet.
type unseen struct {
	happened bool
	host     int64
	counted  uint64 // steps before
}

func (u *unseen) happen(host int64, counted uint64) {
	if !u.happened {
		*u = unseen{happened: true, host: host, counted: counted}
	}
}

func (c *Comparison) see(step *unseen, belief *Belief) {
	if step.happened && belief.Steps > step.counted {
		c.Unseen, step.happened = max(c.Unseen, guestclock.Duration(belief.Host-step.host)), false
	}
}

func (c *Comparison) compare(reading guestclock.Reading, belief *Belief, truths map[string]*Truth) {
	truth := truths[belief.Grandmaster]
	if belief.BoundNs < 0 || truth == nil {
		return
	}
	wrong, within, known := truth.Error(reading)
	if !known {
		return
	}
	bound := belief.Bound(reading.Host)
	c.Bounds, c.Errors = append(c.Bounds, bound), append(c.Errors, wrong.Abs())
	c.Uncertainty = max(c.Uncertainty, within)
	if wrong.Abs()-within > bound {
		c.Wrong = append(c.Wrong, Mistake{reading, wrong, within, bound, *belief})
	}
}

// Median returns the median of durations.
func Median(all []time.Duration) time.Duration { return Percentile(all, 50) }

// Percentile returns the nearest-rank percentile, 0 of no durations.
func Percentile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[(len(sorted)-1)*percent/100]
}

// Add adds another comparison.
func (c *Comparison) Add(other *Comparison) {
	c.Bounds, c.Errors = append(c.Bounds, other.Bounds...), append(c.Errors, other.Errors...)
	c.Wrong = append(c.Wrong, other.Wrong...)
	c.Uncertainty, c.Unseen, c.Steps = max(c.Uncertainty, other.Uncertainty), max(c.Unseen, other.Unseen), c.Steps+other.Steps
}
