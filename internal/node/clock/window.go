// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"math"
	"time"
)

// sample is a value, in nanoseconds or billionths, with its time.
type sample struct {
	at    time.Time
	value float64
}

// window holds the last samples, at most most.
type window struct {
	most    int
	samples []sample
}

func (w *window) add(at time.Time, value float64) {
	if len(w.samples) == w.most {
		copy(w.samples, w.samples[1:])
		w.samples = w.samples[:w.most-1]
	}
	w.samples = append(w.samples, sample{at, value})
}

func (w *window) reset() { w.samples = w.samples[:0] }

// largest returns the largest value, 0 if there is none.
func (w *window) largest() float64 {
	var largest float64
	for _, s := range w.samples {
		largest = max(largest, s.value)
	}
	return largest
}

// spread returns the difference between the largest value and the smallest.
func (w *window) spread() float64 {
	if len(w.samples) == 0 {
		return 0
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range w.samples {
		low, high = min(low, s.value), max(high, s.value)
	}
	return high - low
}

// jump returns the largest change from one sample to the next.
func (w *window) jump() float64 {
	var largest float64
	for i := 1; i < len(w.samples); i++ {
		largest = max(largest, math.Abs(w.samples[i].value-w.samples[i-1].value))
	}
	return largest
}

// slope returns the slope per second of the line through the samples (least squares), 0 for fewer than three samples.
func (w *window) slope() float64 {
	if len(w.samples) < 3 {
		return 0
	}
	var meanX, meanY, above, below float64
	n := float64(len(w.samples))
	first := w.samples[0].at
	for _, s := range w.samples {
		meanX += s.at.Sub(first).Seconds() / n
		meanY += s.value / n
	}
	for _, s := range w.samples {
		x := s.at.Sub(first).Seconds() - meanX
		above += x * (s.value - meanY)
		below += x * x
	}
	if below == 0 {
		return 0
	}
	return above / below
}
