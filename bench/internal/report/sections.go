// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// section is an experiment's part of a page.
type section struct {
	ID, Title, About string
	Figures          []figure
	Tables           []results.SectionTable
}

func newSections(prefix string, all []results.Section) ([]section, error) {
	var drawn []section
	for _, current := range all {
		s := section{ID: prefix + current.ID, Title: current.Title, About: current.About}
		for _, table := range current.Tables {
			table.ID = s.ID + "-" + table.ID
			s.Tables = append(s.Tables, table)
		}
		for i := range current.Charts {
			figure, err := chartFigure(s.ID+"-", &current.Charts[i])
			if err != nil {
				return nil, err
			}
			s.Figures = append(s.Figures, *figure)
		}
		drawn = append(drawn, s)
	}
	return drawn, nil
}

// palette is for lines that are not paths, which have their own styles.
var palette = []look{{color: blue}, {color: vermillion, dashes: []vg.Length{7, 3}}, {color: green, dashes: []vg.Length{2, 2}},
	{color: purple, dashes: []vg.Length{8, 2, 2, 2}}, {color: orange, dashes: []vg.Length{4, 2}}, {color: sky}, {color: black}, {color: grey}}

// looksOf gives each line a different style, as far as there are enough.
func looksOf(lines []results.Line) map[string]look {
	all, next := map[string]look{}, 0
	for _, line := range lines {
		if known, ok := looks[line.Name]; ok {
			all[line.Name] = known
			continue
		}
		all[line.Name] = palette[next%len(palette)]
		next++
	}
	return all
}

func chartFigure(prefix string, chart *results.Chart) (*figure, error) {
	drawn, err := drawChart(chart)
	if err != nil {
		return nil, fmt.Errorf("draw %s: %w", chart.Title, err)
	}
	result := &figure{ID: prefix + chart.ID, Title: chart.Title, Caption: chart.Caption, Drawings: []drawing{{chart.YAxis, drawn}},
		Data: []data{chartData(prefix+chart.ID, chart)}}
	if len(chart.Lines) > 1 {
		for _, line := range chart.Lines {
			result.Keys = append(result.Keys, pathKey{Name: line.Name, Swatch: drawn.looks[line.Name].swatch()})
		}
	}
	return result, nil
}

func drawChart(chart *results.Chart) (*picture, error) {
	p := newPlot()
	addGrid(p, !chart.Bars)
	p.X.Label.Text = chart.XAxis
	drawn := &picture{plot: p, width: wideWidth, height: halfHeight, label: chart.Title, looks: looksOf(chart.Lines)}
	for i, line := range chart.Lines {
		drawn.paths = append(drawn.paths, line.Name)
		var err error
		if chart.Bars {
			err = addBars(p, chart, i, drawn.looks[line.Name])
		} else {
			err = addCurve(p, chart, drawable(chart, line), drawn.looks[line.Name])
		}
		if err != nil {
			return nil, err
		}
	}
	scale(p, chart)
	return drawn, nil
}

// scale sets the axes; linear ones begin at zero, or below.
func scale(p *plot.Plot, chart *results.Chart) {
	p.Y.Max += (p.Y.Max - min(p.Y.Min, 0)) * 0.05
	if chart.LogY {
		logarithmic(&p.Y, 0.2)
	} else {
		p.Y.Min = min(p.Y.Min, 0)
		p.Y.Max = max(p.Y.Max, p.Y.Min+1e-9)
		p.Y.Tick.Marker = plot.TickerFunc(linearTicks)
	}
	switch {
	case chart.Bars:
		p.NominalX(chart.Labels...)
		p.X.Min, p.X.Max = -0.5, float64(len(chart.Labels))-0.5
		p.X.Tick.Length = 0
	case chart.LogX:
		logarithmic(&p.X, 0.1)
	default:
		if chart.Steps {
			break // up to the samples
		}
		p.X.Min = min(p.X.Min, 0)
		p.X.Tick.Marker = plot.TickerFunc(linearTicks)
	}
}

// logarithmic makes an axis logarithmic, with some room at its ends. An empty axis gets a range nevertheless: a plot's
// range for no data has no logarithm, and infinitely many ticks.
func logarithmic(axis *plot.Axis, room float64) {
	axis.Scale, axis.Tick.Marker = plot.LogScale{}, plot.TickerFunc(decadeTicks)
	if axis.Min > axis.Max {
		axis.Min, axis.Max = 1, 10
	}
	axis.Min, axis.Max = axis.Min*(1-room), axis.Max*(1+room)
}

// drawable drops points that logarithmic axes cannot show, and limits ranges to a tenth of their point there. The data
// with the drawing is complete.
func drawable(chart *results.Chart, line results.Line) *results.Line {
	points := line.Points
	line.Points = nil
	for _, point := range points {
		if chart.LogX && point.X <= 0 || chart.LogY && point.Y <= 0 {
			continue
		}
		if chart.LogY && point.Low < point.High {
			point.Low = max(point.Low, point.Y/10)
		}
		line.Points = append(line.Points, point)
	}
	return &line
}

// ranged are points with the ranges around them.
type ranged struct {
	plotter.XYs
	plotter.YErrors
}

func rangesOf(points plotter.XYs, source []results.Point) (ranges ranged, hasRanges bool) {
	for i, point := range source {
		if point.Low < point.High {
			ranges.XYs = append(ranges.XYs, points[i])
			ranges.YErrors = append(ranges.YErrors, struct{ Low, High float64 }{point.Y - point.Low, point.High - point.Y})
			hasRanges = true
		}
	}
	return ranges, hasRanges
}

func addRanges(p *plot.Plot, points plotter.XYs, source []results.Point, ink color.Color) error {
	ranges, hasRanges := rangesOf(points, source)
	if !hasRanges {
		return nil
	}
	bars, err := plotter.NewYErrorBars(ranges)
	if err != nil {
		return err
	}
	bars.LineStyle = draw.LineStyle{Color: ink, Width: vg.Points(1)}
	p.Add(bars)
	return nil
}

func addCurve(p *plot.Plot, chart *results.Chart, line *results.Line, as look) error {
	points := make(plotter.XYs, len(line.Points))
	for i, point := range line.Points {
		points[i] = plotter.XY{X: point.X, Y: point.Y}
	}
	if len(points) == 0 {
		return nil
	}
	drawn, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	drawn.LineStyle = draw.LineStyle{Color: as.color, Width: vg.Points(1.6), Dashes: as.dashes}
	if chart.Steps {
		drawn.StepStyle = plotter.PostStep
		p.Add(drawn)
		return nil
	}
	dots, err := plotter.NewScatter(points)
	if err != nil {
		return err
	}
	dots.GlyphStyle = draw.GlyphStyle{Color: as.color, Radius: vg.Points(2), Shape: draw.CircleGlyph{}}
	p.Add(drawn, dots)
	return addRanges(p, points, line.Points, as.color)
}

// groupShare is the share of the distance between two names that their bars use.
const groupShare = 0.8

func addBars(p *plot.Plot, chart *results.Chart, number int, as look) error {
	line := &chart.Lines[number]
	width := groupShare / float64(len(chart.Lines))
	points := make(plotter.XYs, len(line.Points))
	for i, point := range line.Points {
		left := point.X - groupShare/2 + width*float64(number)
		points[i] = plotter.XY{X: left + width/2, Y: point.Y}
		area, err := plotter.NewPolygon(plotter.XYs{{X: left, Y: 0}, {X: left, Y: point.Y}, {X: left + width*0.9, Y: point.Y},
			{X: left + width*0.9, Y: 0}})
		if err != nil {
			return err
		}
		area.Color, area.LineStyle = as.tint(), draw.LineStyle{Color: as.color, Width: vg.Points(1)}
		p.Add(area)
	}
	return addRanges(p, points, line.Points, as.color)
}

// decadeTicks mark a logarithmic axis: powers of ten, and 2 and 5 of them if there are few.
func decadeTicks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	few := math.Log10(high/low) <= float64(upright.few)
	for exponent := int(math.Floor(math.Log10(low))); float64(exponent) <= math.Log10(high); exponent++ {
		for step := 1.0; step < 10; step++ {
			tick := plot.Tick{Value: step * math.Pow10(exponent)}
			if tick.Value < low || tick.Value > high {
				continue
			}
			if step == 1 || (few && (step == 2 || step == 5)) {
				tick.Label = strconv.FormatFloat(tick.Value, 'g', 3, 64)
				if tick.Value >= 1 {
					tick.Label = thousands(math.Round(tick.Value))
				}
			}
			ticks = append(ticks, tick)
		}
	}
	return ticks
}

func chartData(name string, chart *results.Chart) data {
	d := data{Name: name, Columns: []string{"line", "x", "y", "low", "high"}}
	decimal := func(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }
	for _, line := range chart.Lines {
		for _, point := range line.Points {
			x := decimal(point.X)
			if at := int(point.X); chart.Bars && at >= 0 && at < len(chart.Labels) {
				x = chart.Labels[at]
			}
			d.Rows = append(d.Rows, []string{line.Name, x, decimal(point.Y), decimal(point.Low), decimal(point.High)})
		}
	}
	return d
}
