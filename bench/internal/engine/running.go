// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// runningLimitNs is the longest latency that Running distinguishes: a minute.
const runningLimitNs = 60_000_000_000

// Running has percentiles over all samples so far, to three digits, in constant memory. It is not safe for concurrent
// use.
type Running struct {
	histogram *hdrhistogram.Histogram
}

// NewRunning returns an empty Running.
func NewRunning() *Running {
	return &Running{hdrhistogram.New(1, runningLimitNs, 3)}
}

// Add adds samples in nanoseconds. Negative ones count as 0, those above a minute as a minute.
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
