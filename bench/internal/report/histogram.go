// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// histogramBins is the number of bins on the axis of a histogram.
const histogramBins = 60

// histogram counts samples in bins of equal width, from low on; those outside the axis are counted separately.
type histogram struct {
	low, width    int64
	counts        []int
	below, beyond int
	total         int
}

// newHistogram counts samples, in ascending order, from low to high.
func newHistogram(sorted []int64, low, high int64) *histogram {
	h := &histogram{low: low, width: max((high-low)/histogramBins, 1), counts: make([]int, histogramBins), total: len(sorted)}
	for _, ns := range sorted {
		switch bin := (ns - low) / h.width; {
		case ns < low:
			h.below++
		case bin >= histogramBins:
			h.beyond++
		default:
			h.counts[bin]++
		}
	}
	return h
}

// fullest is the count of the fullest bin.
func (h *histogram) fullest() int {
	return slices.Index(h.counts, slices.Max(h.counts))
}

func (h *histogram) share(count int) float64 { return float64(count) / float64(h.total) }

// histogramSeries is a value that has a histogram.
type histogramSeries struct {
	id, title, axis string
	samples         func(*sampled) []int64
	// signed has its zero in the middle.
	signed bool
}

var (
	latencyHistogram = histogramSeries{"latency-histogram", "latency", "Latency, µs", func(s *sampled) []int64 { return s.latencyNs }, false}
	launchHistogram  = histogramSeries{"launch-histogram", "launch error", "On the wire after the requested time, µs", func(s *sampled) []int64 { return s.launchNs }, false}
	jitterHistogram  = histogramSeries{"jitter-histogram", "jitter", "Jitter, µs", func(s *sampled) []int64 { return s.jitterNs }, true}
)

// span is the axis for the bulk of all samples.
func (h *histogramSeries) span(runs []sampled) (low, high int64) {
	high = 1000
	for i := range runs {
		sorted := h.samples(&runs[i])
		if len(sorted) == 0 {
			continue
		}
		high = max(high, 2*stats.Percentile(sorted, rankP75))
		if h.signed {
			high = max(high, -2*stats.Percentile(sorted, rankP25))
		}
	}
	step := evenStep(microseconds(high))
	high = int64(math.Ceil(microseconds(high)/step) * step * 1000)
	if h.signed {
		low = -high
	}
	return low, high
}

// histogramFigure draws histograms of latency and jitter at one payload; none if nothing was measured.
func histogramFigure(prefix string, runs []sampled) ([]figure, error) {
	runs, payload := atPayload(runs)
	if len(runs) == 0 {
		return nil, nil
	}
	result := figure{ID: prefix + "histogram-figure", Title: fmt.Sprintf("Histograms at %d B", payload), Keys: pathKeys(pathsOf(runs)),
		Caption: fmt.Sprintf("The share of all messages in each of %d bins of equal width; the axis ends at about twice the "+
			"quartiles of all paths. What is beside it counts in the table, and nothing was left out of the shares.", histogramBins)}
	for _, values := range []*histogramSeries{&launchHistogram, &latencyHistogram, &jitterHistogram} {
		low, high := values.span(runs)
		counted := make([]*histogram, len(runs))
		for i := range runs {
			if sorted := values.samples(&runs[i]); len(sorted) > 0 {
				counted[i] = newHistogram(sorted, low, high)
			}
		}
		drawn, err := drawHistogram(runs, counted, values.axis, fmt.Sprintf("Histogram of %s at %d B", values.title, payload))
		if err != nil {
			return nil, err
		}
		if drawn == nil {
			continue
		}
		result.Drawings = append(result.Drawings, drawing{"Share of messages", drawn})
		result.Tables = append(result.Tables, histogramTable(prefix+values.id, values.axis, runs, counted))
		result.Data = append(result.Data, histogramData(prefix+values.id, runs, counted))
	}
	if len(result.Drawings) == 0 {
		return nil, nil
	}
	return []figure{result}, nil
}

func drawHistogram(runs []sampled, counted []*histogram, axis, label string) (*picture, error) {
	p := newPlot()
	addGrid(p, true)
	highest := 0.0
	for i, h := range counted {
		if h == nil {
			continue
		}
		points := plotter.XYs{{X: microseconds(h.low), Y: 0}}
		for bin, count := range h.counts {
			highest = max(highest, h.share(count))
			points = append(points, plotter.XY{X: microseconds(h.low + int64(bin)*h.width), Y: h.share(count)})
		}
		end := microseconds(h.low + histogramBins*h.width)
		points = append(points, plotter.XY{X: end, Y: h.share(h.counts[histogramBins-1])})
		if err := addLine(p, points, runs[i].run.Path, plotter.PostStep); err != nil {
			return nil, fmt.Errorf("draw %s: %w", label, err)
		}
		p.X.Min, p.X.Max = microseconds(h.low), end
	}
	if highest == 0 {
		return nil, nil
	}
	p.Y.Min, p.Y.Max = 0, highest*1.05
	p.X.Label.Text = axis
	p.X.Tick.Marker = plot.TickerFunc(linearTicks)
	p.Y.Tick.Marker = plot.TickerFunc(percentTicks)
	return &picture{p, halfWidth, halfHeight, label, pathsOf(runs), false, nil}, nil
}

// histogramTable lists the main features of the drawing, and the samples outside it.
func histogramTable(id, title string, runs []sampled, counted []*histogram) table {
	head := []string{"messages", "width of a bin", "fullest bin from", "holds", "below the axis", "beyond the axis"}
	at := 0
	return newTable(id, title, runs, head, func(*sampled) []cell {
		h := counted[at]
		at++
		if h == nil {
			return noCells(len(head))
		}
		fullest := h.fullest()
		return []cell{countCell(h.total), timeCell(h.width), timeCell(h.low + int64(fullest)*h.width),
			shareCell(h.share(h.counts[fullest])), shareCell(h.share(h.below)), shareCell(h.share(h.beyond))}
	})
}

func histogramData(id string, runs []sampled, counted []*histogram) data {
	d := data{Name: id, Columns: []string{"path", "from_ns", "to_ns", "messages"}}
	for i, h := range counted {
		if h == nil {
			continue
		}
		for bin, count := range h.counts {
			from := h.low + int64(bin)*h.width
			d.add(runs[i].run.Path, from, from+h.width, int64(count))
		}
	}
	return d
}

// linearTicks mark a linear axis that may begin below zero.
func linearTicks(low, high float64) []plot.Tick {
	step := evenStep(max(high, -low))
	if low < 0 {
		step *= 2
	}
	var ticks []plot.Tick
	for value := math.Ceil(low/step) * step; value <= high*1.001; value += step {
		ticks = append(ticks, plot.Tick{Value: value, Label: thousands(math.Round(value*1000) / 1000)})
	}
	return ticks
}

// percentTicks mark an axis of shares.
func percentTicks(_, high float64) []plot.Tick {
	step := evenStep(high * 100)
	var ticks []plot.Tick
	for i := 0; float64(i)*step <= high*100; i++ {
		value := float64(i) * step
		ticks = append(ticks, plot.Tick{Value: value / 100, Label: strconv.FormatFloat(value, 'g', 3, 64) + " %"})
	}
	return ticks
}
