// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// paperInterval is the interval of the mean in the reproduced figure.
const paperInterval = 10 * time.Second

// intervals are tried if too little was measured for ten points.
var intervals = []time.Duration{5 * time.Second, 2 * time.Second, time.Second, 500 * time.Millisecond, 200 * time.Millisecond,
	100 * time.Millisecond}

// means are the mean latencies of consecutive intervals; an interval without arrivals is NaN.
type means []float64

func newMeans(series *results.Series, interval time.Duration) means {
	var sums []float64
	var counts []int
	for i, at := range series.MeasuredNs {
		slot := int(at / interval.Nanoseconds())
		for slot >= len(sums) {
			sums, counts = append(sums, 0), append(counts, 0)
		}
		sums[slot] += float64(series.LatencyNs[i])
		counts[slot]++
	}
	all := make(means, len(sums))
	for i := range all {
		all[i] = math.NaN()
		if counts[i] > 0 {
			all[i] = sums[i] / float64(counts[i])
		}
	}
	return all
}

// present returns the intervals with arrivals.
func (m means) present() []float64 {
	return slices.DeleteFunc(slices.Clone(m), math.IsNaN)
}

// intervalFor returns 10 s, or less if less than 100 s were measured, unless the profile sets it.
func intervalFor(runs []sampled, chosenNs int64) time.Duration {
	if chosenNs > 0 {
		return time.Duration(chosenNs)
	}
	longest := int64(0)
	for i := range runs {
		if at := runs[i].series.MeasuredNs; len(at) > 0 {
			longest = max(longest, at[len(at)-1])
		}
	}
	for _, interval := range append([]time.Duration{paperInterval}, intervals...) {
		if longest >= 10*interval.Nanoseconds()-interval.Nanoseconds()/2 {
			return interval
		}
	}
	return intervals[len(intervals)-1]
}

// notJudged is a cell about a limit if the clocks cannot be trusted.
const notJudged = "not judged"

// meanFigure draws the mean latency over the measured time against the budget; none if nothing was measured.
func meanFigure(prefix string, all []sampled, profile *results.ProfileSummary) ([]figure, error) {
	runs, payload := atPayload(all)
	runs = slices.DeleteFunc(runs, func(s sampled) bool { return len(s.series.MeasuredNs) == 0 })
	if len(runs) == 0 {
		return nil, nil
	}
	var chosenNs int64
	if profile != nil {
		chosenNs = profile.MeanOverNs
	}
	budgetsNs := profile.BudgetsNs()
	interval := intervalFor(runs, chosenNs)
	taken := make([]means, len(runs))
	for i := range runs {
		taken[i] = newMeans(runs[i].series, interval)
	}
	drawn, err := drawMeans(runs, taken, interval, budgetsNs, fmt.Sprintf("Mean latency at %d B over the time measured", payload))
	if err != nil {
		return nil, err
	}
	caption := fmt.Sprintf("After figure 5 of the paper on virtual machines: the mean of each %v that was measured of a path, without the time in "+
		"which others had their turn.", interval)
	if interval < paperInterval && chosenNs == 0 {
		caption += " The paper takes 10 s; less than ten times that was measured."
	}
	switch len(budgetsNs) {
	case 0:
	case 1:
		caption += fmt.Sprintf(" The horizontal line is the budget of %s µs.", micros(budgetsNs[0]))
	default:
		caption += fmt.Sprintf(" The horizontal lines are the budgets of %s µs.", microsEach(budgetsNs))
	}
	return []figure{{ID: prefix + "means-figure", Title: fmt.Sprintf("Mean latency at %d B over time", payload), Caption: caption,
		Keys: pathKeys(pathsOf(runs)), Drawings: []drawing{{"Mean latency, µs", drawn}},
		Tables: []table{meanTable(prefix+"means", runs, taken, budgetsNs)}, Data: []data{meanData(prefix+"means", runs, taken, interval)}}}, nil
}

func drawMeans(runs []sampled, taken []means, interval time.Duration, budgetsNs []int64, label string) (*picture, error) {
	p := newPlot()
	p.Y.Scale, p.Y.Tick.Marker = symlog{}, upright
	addGrid(p, false)
	longest := 1
	for i, means := range taken {
		longest = max(longest, len(means))
		var points plotter.XYs
		for slot, mean := range means {
			if !math.IsNaN(mean) {
				points = append(points, plotter.XY{X: (float64(slot) + 0.5) * interval.Seconds(), Y: mean / 1000})
			}
		}
		if len(points) == 0 {
			continue
		}
		if err := addLine(p, points, runs[i].run.Path, plotter.NoStep); err != nil {
			return nil, fmt.Errorf("draw %s: %w", label, err)
		}
		dots, err := plotter.NewScatter(points)
		if err != nil {
			return nil, fmt.Errorf("draw %s: %w", label, err)
		}
		dots.GlyphStyle = draw.GlyphStyle{Color: lookOf(runs[i].run.Path).color, Radius: vg.Points(2), Shape: draw.CircleGlyph{}}
		p.Add(dots)
	}
	p.X.Min, p.X.Max = 0, float64(longest)*interval.Seconds()
	p.X.Label.Text = "Time measured, s"
	for _, budgetNs := range budgetsNs {
		line := plotter.NewFunction(func(float64) float64 { return microseconds(budgetNs) })
		line.LineStyle = draw.LineStyle{Color: ink, Width: vg.Points(1.2), Dashes: []vg.Length{4, 3}}
		p.Add(line)
		p.Y.Max = max(p.Y.Max, microseconds(budgetNs)*1.1)
		p.Y.Min = min(p.Y.Min, microseconds(budgetNs)*0.8)
	}
	return &picture{p, wideWidth, halfHeight, label, pathsOf(runs), false, nil}, nil
}

// microsEach lists times in µs.
func microsEach(all []int64) string {
	texts := make([]string, len(all))
	for i, value := range all {
		texts[i] = micros(value)
	}
	return strings.Join(texts, " and ")
}

func meanTable(id string, runs []sampled, taken []means, budgetsNs []int64) table {
	head := []string{"means", "lowest", "middle", "highest", "of all"}
	for _, budgetNs := range budgetsNs {
		over := "the budget"
		if len(budgetsNs) > 1 {
			over = micros(budgetNs) + " µs"
		}
		head = append(head, "means over "+over, "messages over it")
	}
	at := 0
	return newTable(id, "µs", runs, head, func(s *sampled) []cell {
		sorted := slices.Sorted(slices.Values(taken[at].present()))
		at++
		if len(sorted) == 0 {
			return noCells(len(head))
		}
		cells := []cell{countCell(len(sorted)), timeCell(int64(sorted[0])), timeCell(int64(sorted[(len(sorted)-1)/2])),
			timeCell(int64(sorted[len(sorted)-1])), timeCell(int64(mean(s.latencyNs)))}
		for _, budgetNs := range budgetsNs {
			if s.run.ClockError.DoubtOf() != "" {
				cells = append(cells, cell{Text: notJudged}, cell{Text: notJudged})
				continue
			}
			first, _ := slices.BinarySearch(sorted, float64(budgetNs)+1)
			cells = append(cells, countCell(len(sorted)-first), shareCell(beyond(s.latencyNs, budgetNs)))
		}
		return cells
	})
}

func mean(samples []int64) float64 {
	var sum float64
	for _, sample := range samples {
		sum += float64(sample)
	}
	return sum / float64(len(samples))
}

func meanData(id string, runs []sampled, taken []means, interval time.Duration) data {
	d := data{Name: id, Columns: []string{"path", "from_ns", "to_ns", "mean_ns"}}
	for i, means := range taken {
		for slot, mean := range means {
			if !math.IsNaN(mean) {
				d.add(runs[i].run.Path, int64(slot)*interval.Nanoseconds(), int64(slot+1)*interval.Nanoseconds(), int64(mean))
			}
		}
	}
	return d
}
