// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"errors"
	"io"
	"slices"

	"github.com/kubernetsn/kubernetsn/internal/results"
)

// Measurement is what a report is about.
type Measurement struct {
	Summary *results.Summary
	// Series belong to the runs of the summary; a run without one has no box and no curve.
	Series []results.Series
}

// Write writes the page. Paths and payloads appear in the order of the summary's runs; those that are missing
// leave their place empty.
func Write(out io.Writer, measurement *Measurement) error {
	if measurement.Summary == nil {
		return errors.New("a report needs a summary")
	}
	page, err := newPage(measurement)
	if err != nil {
		return err
	}
	return pageTemplate.Execute(out, page)
}

// sampled is a run reduced to what is drawn and written; its samples are sorted.
type sampled struct {
	run       *results.Run
	latencyNs []int64
	latency   *box
	jitter    *box
}

// reduce sorts the samples of each run of a workload. Payloads ascend, paths keep the order of the runs.
func reduce(measurement *Measurement, workload string) []sampled {
	var all []sampled
	for _, run := range measurement.Summary.Runs {
		if run.Workload != workload {
			continue
		}
		one := sampled{run: run}
		for _, series := range measurement.Series {
			if series.Path == run.Path && series.Workload == workload && series.PayloadBytes == run.PayloadBytes {
				one.latencyNs = slices.Sorted(slices.Values(series.LatencyNs))
				one.latency = newBox(one.latencyNs)
				one.jitter = newBox(slices.Sorted(slices.Values(series.JitterNs)))
			}
		}
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b sampled) int {
		return cmp.Compare(a.run.PayloadBytes, b.run.PayloadBytes)
	})
	return all
}
