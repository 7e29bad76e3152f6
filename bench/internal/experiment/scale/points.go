// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// line has all points of one kind with one cycle, the fewest flows first.
type line struct {
	kind   string
	cycle  time.Duration
	points []*point
}

// point has all repetitions of a case.
type point struct {
	number      int
	cycle       time.Duration
	repetitions []repetition
}

// repetition is one repetition.
type repetition struct {
	values map[string]float64
	// departure has messages; nil if there are none.
	departure *stats.Summary
	messages  int
}

// linesOf groups the repetitions of each case.
func linesOf(cycles []load, measured []engine.Measured) []line {
	var all []line
	for i := range cycles {
		for _, kind := range []string{byFlows, byPods} {
			if current := lineOf(kind, cycles[i].Cycle, measured); len(current.points) > 0 {
				all = append(all, current)
			}
		}
	}
	return all
}

func lineOf(kind string, cycle time.Duration, measured []engine.Measured) line {
	result := line{kind: kind, cycle: cycle}
	for _, m := range measured {
		var number int
		_, _ = fmt.Sscanf(m.Case.Name, kind+"-%d-", &number) // 0 for the other kind
		if m.Case.Name != caseName(kind, number, cycle) {
			continue
		}
		at := slices.IndexFunc(result.points, func(p *point) bool { return p.number == number })
		if at < 0 {
			at = len(result.points)
			result.points = append(result.points, &point{number: number, cycle: cycle})
		}
		samples := m.Samples[sampleDeparted]
		result.points[at].repetitions = append(result.points[at].repetitions, repetition{m.Values, stats.Summarize(samples), len(samples)})
	}
	slices.SortFunc(result.points, func(a, b *point) int { return a.number - b.number })
	return result
}

// rate is the messages per second of the flows of a point.
func (p *point) rate() float64 { return float64(p.number) / p.cycle.Seconds() }

// values are those of all repetitions.
func (p *point) values(name string) []float64 {
	all := make([]float64, len(p.repetitions))
	for i, repetition := range p.repetitions {
		all[i] = repetition.values[name]
	}
	return all
}

func (p *point) median(name string) float64 { return stats.Median(p.values(name)) }

func (p *point) sum(name string) int {
	sum := 0.0
	for _, value := range p.values(name) {
		sum += value
	}
	return int(sum)
}

// grownBytes is the growth of ktsnd's memory by the flows.
func (p *point) grownBytes() float64 { return p.median(valueMemory) - p.median(valueEmpty) }

// quantile is a figure of the departure error.
type quantile struct {
	// name is a column's title, id a chart's.
	name, id string
	// hundredths of a percent; 0: the largest.
	hundredths int
	read       func(*stats.Summary) int64
}

var (
	p50     = quantile{"p50", "departure-p50", stats.P50, func(s *stats.Summary) int64 { return s.P50 }}
	p90     = quantile{"p90", "departure-p90", stats.P90, func(s *stats.Summary) int64 { return s.P90 }}
	p99     = quantile{"p99", "departure-p99", stats.P99, func(s *stats.Summary) int64 { return s.P99 }}
	p99_9   = quantile{"p99.9", "departure-p99-9", stats.P99_9, func(s *stats.Summary) int64 { return s.P99_9 }}
	largest = quantile{"max", "departure-max", 0, func(s *stats.Summary) int64 { return s.Max }}
)

// departure returns a quantile in each repetition, false if one of them has too few messages for it.
func (p *point) departure(q quantile) ([]float64, bool) {
	all := make([]float64, 0, len(p.repetitions))
	for _, repetition := range p.repetitions {
		if repetition.departure == nil || q.hundredths > 0 && !stats.Supported(repetition.messages, q.hundredths) {
			return nil, false
		}
		all = append(all, float64(q.read(repetition.departure)))
	}
	return all, len(all) > 0
}

// spread is the median of repetitions, and their range.
func spread(number int, values []float64) results.Point {
	return results.Point{X: float64(number), Y: stats.Median(values), Low: slices.Min(values), High: slices.Max(values)}
}
