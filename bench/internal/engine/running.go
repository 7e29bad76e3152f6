// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// runningLimitNs is the longest latency that Running tells from longer ones: a minute.
const runningLimitNs = 60_000_000_000

// Running is where a measurement stands: percentiles over all samples so far, to three digits, in constant
// memory. One goroutine.
type Running struct {
	histogram *hdrhistogram.Histogram
}

// NewRunning returns an empty one.
func NewRunning() *Running {
	return &Running{hdrhistogram.New(1, runningLimitNs, 3)}
}

// Add takes samples of nanoseconds. Those below 0 count as 0 and those above a minute as a minute.
func (r *Running) Add(samples []int64) error {
	for _, sample := range samples {
		if err := r.histogram.RecordValue(min(max(sample, 0), runningLimitNs)); err != nil {
			return fmt.Errorf("record sample: %w", err)
		}
	}
	return nil
}

// Count is the number of samples so far.
func (r *Running) Count() int64 {
	return r.histogram.TotalCount()
}

// Percentile returns the value that this percentage of samples does not exceed, to three digits.
func (r *Running) Percentile(percent float64) int64 {
	return r.histogram.ValueAtPercentile(percent)
}
