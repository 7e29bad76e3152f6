// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// Names of the files with the latencies of the plain runs, and with their drawing.
const (
	distributionName = "distribution.json"
	pictureName      = "latency.svg"
)

// distributionPercentiles are the percentiles of a distribution, in hundredths, from the least to the largest latency.
var distributionPercentiles = []int{0, 100, 500, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 9500, 9800, 9900, 9950, 9980, 9990, 9995, 9998, 10_000}

// picturePaths are the paths in the drawing, if they were measured: this project, the same overlay with a sender that
// spins, and the same sender on the nodes' own network.
var picturePaths = []string{results.PathDirect, results.PathTSN, results.PathKernelVXLANSpin, results.PathPrimarySpin, results.PathHostSpin}

// distribution has the latencies of the plain runs, in so few numbers that it can be committed next to a page of
// results, as the source of the drawing there.
type distribution struct {
	Host results.Host `json:"host"`
	// Hundredths are the percentiles of each run, in hundredths.
	Hundredths []int             `json:"hundredths"`
	Runs       []distributionRun `json:"runs"`
}

type distributionRun struct {
	Path         string `json:"path"`
	PayloadBytes int    `json:"payload_bytes"`
	CycleNs      int64  `json:"cycle_ns"`
	Messages     int    `json:"messages"`
	// LatencyNs has a latency for each percentile.
	LatencyNs []int64 `json:"latency_ns"`
}

// newDistribution returns nil if no plain run has samples.
func newDistribution(measurement *Measurement) *distribution {
	d := &distribution{Host: measurement.Summary.Host, Hundredths: distributionPercentiles}
	for _, series := range measurement.Series {
		if series.Workload != results.WorkloadPlain || len(series.LatencyNs) == 0 {
			continue
		}
		sorted := slices.Sorted(slices.Values(series.LatencyNs))
		run := distributionRun{series.Path, series.PayloadBytes, series.CycleNs, len(sorted), nil}
		for _, hundredths := range d.Hundredths {
			run.LatencyNs = append(run.LatencyNs, stats.Percentile(sorted, hundredths))
		}
		d.Runs = append(d.Runs, run)
	}
	if len(d.Runs) == 0 {
		return nil
	}
	return d
}

// write writes one line per run.
func (d *distribution) write(out io.Writer) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	text = bytes.ReplaceAll(text, []byte(`{"path":`), []byte("\n  {\"path\":"))
	_, err = out.Write(append(text, '\n'))
	return err
}

// atPicture returns the runs in the drawing: one per path, with the payload of the paper's figures, or the first one.
func (d *distribution) atPicture() (runs []distributionRun) {
	payload, cycleNs := d.Runs[0].PayloadBytes, d.Runs[0].CycleNs
	for _, run := range d.Runs {
		if run.PayloadBytes == cdfPayload {
			payload = cdfPayload
		}
	}
	for _, path := range picturePaths {
		at := slices.IndexFunc(d.Runs, func(run distributionRun) bool {
			return run.Path == path && run.PayloadBytes == payload && run.CycleNs == cycleNs
		})
		if at >= 0 {
			runs = append(runs, d.Runs[at])
		}
	}
	return runs
}

// picture draws the share of messages from a latency on, both axes logarithmic; nil if none of its paths was measured.
func (d *distribution) picture() (*picture, error) {
	runs := d.atPicture()
	if len(runs) == 0 {
		return nil, nil
	}
	label := fmt.Sprintf("Latency of messages of %d B, one each %v", runs[0].PayloadBytes, time.Duration(runs[0].CycleNs))
	p := newPlot()
	p.X.Scale, p.X.Tick.Marker = symlog{}, across
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, shareTicks{}
	p.X.Label.Text, p.Y.Label.Text = "Latency, µs", "Share that took at least so long"
	addGrid(p, true)
	drawn := &picture{plot: p, width: wideWidth, height: wideHeight, label: label}
	rarest := 0.1
	for _, run := range runs {
		count := float64(run.Messages)
		rarest = min(rarest, 1/count)
		var points plotter.XYs
		for i, ns := range run.LatencyNs {
			rank := stats.Rank(run.Messages, d.Hundredths[i])
			points = append(points, plotter.XY{X: microseconds(ns), Y: (count - float64(rank) + 1) / count})
		}
		if err := addLine(p, points, run.Path, plotter.NoStep); err != nil {
			return nil, fmt.Errorf("draw %s: %w", label, err)
		}
		drawn.paths = append(drawn.paths, run.Path)
	}
	p.Y.Min, p.Y.Max = rarest, 1
	return drawn, nil
}
