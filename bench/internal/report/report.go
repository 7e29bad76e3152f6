// SPDX-License-Identifier: Apache-2.0

// Package report writes a measurement as one self-contained HTML page: style and drawings are embedded, there is no
// script, and nothing is fetched. It is made for screens and prints on A4.
//
// The samples of all messages (Series) are reduced to boxes and curves (boxes.go, cdf.go), which gonum/plot draws
// (plots.go) and a table below the drawing lists (tables.go). Drawing and table use the same reduction. page.go
// arranges the parts; page.html.tmpl and page.css define their form.
//
// This package neither measures nor judges: verdicts are in the summary. It has no state; calls may run concurrently.
package report

import (
	"cmp"
	"slices"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// Measurement is the subject of a report.
type Measurement struct {
	// Name identifies it among others in the same report; empty if it is the only one.
	Name    string
	Summary *results.Summary
	// Series belong to the runs of the summary; a run without one has no box and no curve.
	Series []results.Series
}

// condition is a workload and a cycle.
type condition struct {
	workload string
	cycleNs  int64
}

// conditionsOf lists them in the order of the runs.
func conditionsOf(summary *results.Summary) []condition {
	var all []condition
	for _, run := range summary.Runs {
		if current := (condition{run.Workload, run.CycleNs}); !slices.Contains(all, current) {
			all = append(all, current)
		}
	}
	return all
}

// sampled is a run reduced to its drawings and tables; its samples are sorted, except those of series.
type sampled struct {
	run       *results.Run
	series    *results.Series
	latencyNs []int64
	jitterNs  []int64
	launchNs  []int64
	latency   *box
	jitter    *box
}

// reduce sorts the samples of each run under a condition. Payloads ascend, paths keep the order of the runs.
func reduce(measurement *Measurement, under condition) []sampled {
	var all []sampled
	for _, run := range measurement.Summary.Runs {
		if run.Workload != under.workload || run.CycleNs != under.cycleNs {
			continue
		}
		reduced := sampled{run: run, series: &results.Series{}}
		for i := range measurement.Series {
			if series := &measurement.Series[i]; series.Key == run.Key() {
				reduced.series = series
				reduced.latencyNs = slices.Sorted(slices.Values(series.LatencyNs))
				reduced.launchNs = slices.Sorted(slices.Values(series.LaunchNs))
				reduced.jitterNs = slices.Sorted(slices.Values(series.JitterNs))
				reduced.latency, reduced.jitter = newBox(reduced.latencyNs), newBox(reduced.jitterNs)
			}
		}
		all = append(all, reduced)
	}
	slices.SortStableFunc(all, func(a, b sampled) int {
		return cmp.Compare(a.run.PayloadBytes, b.run.PayloadBytes)
	})
	return all
}

// atPayload keeps the runs with the payload of the paper's figures, or the smallest with samples.
func atPayload(all []sampled) (runs []sampled, payload int) {
	payload, ok := payloadOfCDF(all)
	if !ok {
		return nil, 0
	}
	for _, current := range all {
		if current.run.PayloadBytes == payload && current.latency != nil {
			runs = append(runs, current)
		}
	}
	return runs, payload
}
