// SPDX-License-Identifier: Apache-2.0

// Package resultstest has what tests need of results: some that are made up, and those that a program has written.
package resultstest

import (
	"github.com/kubernetsn/kubernetsn/internal/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// Run is a run whose medians are all derived from one latency.
func Run(path string, payloadBytes int, latencyNs int64) *results.Run {
	latency := &stats.Summary{P50: latencyNs, P99: 2 * latencyNs}
	r := &results.Run{Path: path, Workload: results.WorkloadPlain, PayloadBytes: payloadBytes,
		MedianOfAlternations: results.Distributions{
			Latency: latency, ClockError: results.OneClock(), LaunchError: latency, SendCall: latency,
			Jitter: &stats.Jitter{AbsP50: latencyNs}}}
	cores := 0.25
	r.MedianOfAlternations.SendingCores = &cores
	if path == results.PathDirect {
		late := uint64(1)
		r.Late = &late
		r.MedianOfAlternations.DepartureError = &stats.Summary{P50: latencyNs / 100}
		r.MedianOfAlternations.CPUCores = map[string]float64{"talker": 0.17, "ktsnd": 0.08}
	}
	return r
}
