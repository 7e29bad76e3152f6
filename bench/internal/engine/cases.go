// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"github.com/kubernetsn/kubernetsn/bench/internal/inference"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// casesOf merges the measurements of each case, in order of first appearance: its values, and the distributions of its
// samples.
func casesOf(measured []Measured) []*results.Case {
	var all []*results.Case
	for _, measurement := range measured {
		existing := findCase(all, measurement.Case.Path, measurement.Case.Name)
		if existing == nil {
			existing = &results.Case{Path: measurement.Case.Path, Name: measurement.Case.Name}
			all = append(all, existing)
		}
		for name, value := range measurement.Values {
			existing.Add(name, measurement.Repetition, value)
		}
		for name, samples := range measurement.Samples {
			addDistribution(existing, name, measurement.Repetition, samples)
		}
	}
	return all
}

// addDistribution adds the largest sample, and the percentiles for which there are enough samples.
func addDistribution(to *results.Case, name string, repetition int, samples []int64) {
	summary := stats.Summarize(samples)
	if summary == nil {
		return
	}
	for _, percentile := range []struct {
		suffix     string
		hundredths int
		value      int64
	}{{"_p50", stats.P50, summary.P50}, {"_p90", stats.P90, summary.P90}, {"_p99", stats.P99, summary.P99}, {"_p99_9", stats.P99_9, summary.P99_9}} {
		if stats.Supported(len(samples), percentile.hundredths) {
			to.Add(name+percentile.suffix, repetition, float64(percentile.value))
		}
	}
	to.Add(name+"_max", repetition, float64(summary.Max))
}

func findCase(all []*results.Case, path, name string) *results.Case {
	if at := slices.IndexFunc(all, func(c *results.Case) bool { return c.Path == path && c.Name == name }); at >= 0 {
		return all[at]
	}
	return nil
}

// CaseDifference is a figure of a case in two benches of an experiment.
type CaseDifference struct {
	Path, Case string
	// Figure is the experiment's name of the figure.
	Figure string
	A, B   inference.Estimate
	// Quotient is B ÷ A. If Known, its uncertainty is known.
	Quotient inference.Quotient
	Known    bool
}

// compareCases compares the most significant figures of an experiment.
func (c *Comparison) compareCases(a, b *collector, figures []string) {
	first, second := casesOf(a.cases), casesOf(b.cases)
	for _, result := range first {
		other := findCase(second, result.Path, result.Name)
		if other == nil {
			c.OnlyA = append(c.OnlyA, caseName(result))
			continue
		}
		for _, figure := range figures {
			was, now := result.Figures[figure], other.Figures[figure]
			if was == nil || now == nil {
				continue
			}
			d := CaseDifference{Path: result.Path, Case: result.Name, Figure: figure, A: was.Estimate(), B: now.Estimate()}
			d.Quotient, d.Known = inference.QuotientOf(d.B, d.A)
			c.Cases = append(c.Cases, d)
		}
	}
	for _, other := range second {
		if findCase(first, other.Path, other.Name) == nil {
			c.OnlyB = append(c.OnlyB, caseName(other))
		}
	}
}

func caseName(c *results.Case) string { return c.Path + ", " + c.Name }
