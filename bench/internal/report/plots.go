// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Sizes of drawings, in points. The page scales them to its width.
const (
	wideWidth  = vg.Length(640)
	wideHeight = vg.Length(285)
	halfWidth  = vg.Length(316)
	halfHeight = vg.Length(235)
	fontSize   = vg.Length(9.5)
	smallSize  = vg.Length(8.5)
	// labelledPitch is the minimum distance of boxes with a text below each.
	labelledPitch = vg.Length(50)
	// widestPitch limits the distance of a few boxes.
	widestPitch = vg.Length(85)
	// tickRoom is the approximate width of the labels of the vertical axis.
	tickRoom = vg.Length(45)
)

var (
	ink   = color.NRGBA{R: 0x22, G: 0x2b, B: 0x35, A: 0xff}
	faint = color.NRGBA{R: 0x5b, G: 0x67, B: 0x73, A: 0xff}
	rule  = color.NRGBA{R: 0xdd, G: 0xe2, B: 0xe7, A: 0xff}
	frame = color.NRGBA{R: 0x9a, G: 0xa5, B: 0xb1, A: 0xff}
)

// microseconds is the unit of all axes of time.
func microseconds(ns int64) float64 { return float64(ns) / 1000 }

// newPlot is an empty drawing in the page's style.
func newPlot() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Padding = 0
		axis.LineStyle = draw.LineStyle{Color: frame, Width: vg.Points(0.75)}
		axis.Tick.LineStyle = draw.LineStyle{Color: frame, Width: vg.Points(0.75)}
		axis.Tick.Length = vg.Points(4)
		styleText(&axis.Tick.Label, smallSize, faint)
		styleText(&axis.Label.TextStyle, fontSize, ink)
		axis.Label.Padding = vg.Points(3)
	}
	return p
}

func styleText(style *text.Style, size vg.Length, ink color.Color) {
	style.Font = font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size)
	style.Color = ink
}

// addGrid draws lines in the background.
func addGrid(p *plot.Plot, vertical bool) {
	grid := plotter.NewGrid()
	line := draw.LineStyle{Color: rule, Width: vg.Points(0.6)}
	grid.Horizontal = line
	grid.Vertical.Color = nil
	if vertical {
		grid.Vertical = line
	}
	p.Add(grid)
}

// picture is a drawing before it is rendered.
type picture struct {
	plot          *plot.Plot
	width, height vg.Length
	label         string
	// paths are the paths in the drawing: on the page a key is above it, elsewhere it has a legend of its own.
	paths []string
	// legendBelow is for lines that rise to the upper right.
	legendBelow bool
	// looks are the styles of lines that are not paths.
	looks map[string]look
}

// lookOf returns the style of a line.
func (p *picture) lookOf(name string) look {
	if look, ok := p.looks[name]; ok {
		return look
	}
	return lookOf(name)
}

// inline renders SVG for HTML: without the header of a file, names of fonts and absolute size, which are the page's.
func (p *picture) inline() (template.HTML, error) {
	canvas := vgsvg.New(p.width, p.height)
	p.plot.Draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", fmt.Errorf("draw %s: %w", p.label, err)
	}
	_, drawing, hasDrawing := strings.Cut(out.String(), "<svg")
	if hasDrawing {
		_, drawing, hasDrawing = strings.Cut(drawing, ">")
	}
	if !hasDrawing {
		return "", fmt.Errorf("draw %s: the plotting library made no SVG", p.label)
	}
	drawing = strings.ReplaceAll(drawing,
		"font-family:Liberation Sans;font-variant:none;font-weight:normal;font-style:normal;", "")
	drawing = strings.ReplaceAll(drawing, "\n", "")
	// vgsvg has escaped the texts in the drawing.
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %g %g" role="img" aria-label="`, p.width.Points(), p.height.Points()) +
		template.HTMLEscapeString(p.label) + `">` + drawing), nil
}

// pngDPI gives a drawing of the page's width some 1,800 pixels.
const pngDPI = 200

// write renders a file: svg or png. As a file a drawing has a background.
func (p *picture) write(out io.Writer, format string) error {
	alone := *p.plot
	alone.BackgroundColor = color.White
	alone.Title.Text = p.label
	styleText(&alone.Title.TextStyle, fontSize, ink)
	if err := p.addLegend(&alone); err != nil {
		return err
	}
	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	}
	if format == "png" {
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(p.width, p.height), vgimg.UseDPI(pngDPI))}
	} else {
		canvas = vgsvg.New(p.width, p.height)
	}
	alone.Draw(draw.New(canvas))
	var drawing bytes.Buffer
	if _, err := canvas.WriteTo(&drawing); err != nil {
		return err
	}
	// Few machines have the font that the library measures texts with; Arial has the same widths.
	_, err := out.Write(bytes.ReplaceAll(drawing.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")))
	return err
}

// addLegend shows which line is which path.
func (p *picture) addLegend(to *plot.Plot) error {
	to.Legend = plot.NewLegend()
	to.Legend.Top = !p.legendBelow
	styleText(&to.Legend.TextStyle, smallSize, ink)
	to.Legend.Padding, to.Legend.ThumbnailWidth = vg.Points(3), vg.Points(18)
	for _, path := range p.paths {
		line, err := plotter.NewLine(plotter.XYs{{}, {}})
		if err != nil {
			return err
		}
		look := p.lookOf(path)
		line.LineStyle = draw.LineStyle{Color: look.color, Width: vg.Points(1.6), Dashes: look.dashes}
		to.Legend.Add(path, line)
	}
	return nil
}

// slot is the place of one box.
type slot struct {
	path         string
	payloadBytes int
	x            float64
	box          *box
}

// arrange places boxes in groups by payload, in the order given, with the space of one box between groups. Unmeasured
// payloads and paths get their place as well.
func arrange(runs []sampled, boxOf func(*sampled) *box) (slots []slot, width float64) {
	paths := pathsOf(runs)
	for group, payload := range payloadsOf(runs) {
		for i := range runs {
			if runs[i].run.PayloadBytes == payload {
				slots = append(slots, slot{runs[i].run.Path, payload,
					float64(group*(len(paths)+1) + slices.Index(paths, runs[i].run.Path)), boxOf(&runs[i])})
			}
		}
	}
	groups := len(payloadsOf(runs))
	return slots, float64(groups*(len(paths)+1) - 1)
}

func pathsOf(runs []sampled) []string {
	var paths []string
	for i := range runs {
		if path := runs[i].run.Path; !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

func payloadsOf(runs []sampled) []int {
	var payloads []int
	for i := range runs {
		if payload := runs[i].run.PayloadBytes; !slices.Contains(payloads, payload) {
			payloads = append(payloads, payload)
		}
	}
	return payloads
}

// drawBoxes draws one box per run, grouped by payload; false if there is nothing to draw. A few boxes keep their size,
// in the middle.
func drawBoxes(runs []sampled, boxOf func(*sampled) *box, width, height vg.Length, label string) (*picture, bool, error) {
	slots, occupied := arrange(runs, boxOf)
	paths := pathsOf(runs)
	p := newPlot()
	p.Y.Scale, p.Y.Tick.Marker = symlog{}, upright
	addGrid(p, false)
	room := width - tickRoom
	places := max(occupied, float64(room/widestPitch))
	pitch := room / vg.Length(places)
	drawn := false
	for _, slot := range slots {
		if slot.box == nil {
			continue
		}
		plotted, err := newBoxPlot(slot, min(pitch*0.55, 40))
		if err != nil {
			return nil, false, fmt.Errorf("draw %s: %w", label, err)
		}
		p.Add(plotted)
		drawn = true
	}
	if !drawn {
		return nil, false, nil
	}
	margin := (places - occupied) / 2
	p.X.Min, p.X.Max = -0.5-margin, occupied-0.5+margin
	p.X.Tick.Marker = boxTicks(slots, len(paths), pitch >= labelledPitch)
	p.X.Tick.Length = 0
	p.X.Tick.Label.Color = ink
	for group := 1; group < len(payloadsOf(runs)); group++ {
		p.Add(separator(group*(len(paths)+1) - 1))
	}
	return &picture{plot: p, width: width, height: height, label: label, paths: paths}, true, nil
}

// newBoxPlot sets our percentiles in the library's box: its own whiskers would end at 1.5 interquartile ranges.
func newBoxPlot(slot slot, width vg.Length) (*plotter.BoxPlot, error) {
	b := slot.box
	outside := plotter.Values{microseconds(b.p50)} // never empty
	for _, ns := range b.outside {
		outside = append(outside, microseconds(ns))
	}
	plotted, err := plotter.NewBoxPlot(width, slot.x, outside)
	if err != nil {
		return nil, err
	}
	plotted.Median, plotted.Quartile1, plotted.Quartile3 = microseconds(b.p50), microseconds(b.p25), microseconds(b.p75)
	plotted.AdjLow, plotted.AdjHigh = microseconds(b.p1), microseconds(b.p99)
	plotted.Min, plotted.Max = microseconds(b.min), microseconds(b.max)
	plotted.Outside = nil
	for i := range b.outside {
		plotted.Outside = append(plotted.Outside, i+1)
	}
	look := lookOf(slot.path)
	plotted.FillColor = look.tint()
	plotted.CapWidth = width / 2
	plotted.BoxStyle = draw.LineStyle{Color: look.color, Width: vg.Points(1.1)}
	plotted.MedianStyle = draw.LineStyle{Color: look.color, Width: vg.Points(2.4)}
	plotted.WhiskerStyle = draw.LineStyle{Color: look.color, Width: vg.Points(1.1)}
	plotted.GlyphStyle = draw.GlyphStyle{Color: look.color, Radius: vg.Points(1.3), Shape: draw.RingGlyph{}}
	return plotted, nil
}

// boxTicks are the texts below the boxes: path and median if there is room, and the payload of each group.
func boxTicks(slots []slot, paths int, labelled bool) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	blank := ""
	if labelled {
		blank = "\n\n"
		for _, slot := range slots {
			if slot.box != nil {
				ticks = append(ticks, plot.Tick{Value: slot.x,
					Label: slot.path + "\n" + micros(slot.box.p50) + " µs"})
			}
		}
	}
	named := map[int]bool{}
	for _, slot := range slots {
		if named[slot.payloadBytes] {
			continue
		}
		group := len(named)
		named[slot.payloadBytes] = true
		middle := float64(group*(paths+1)) + float64(paths-1)/2
		ticks = append(ticks, plot.Tick{Value: middle, Label: fmt.Sprintf("%s%d B", blank, slot.payloadBytes)})
	}
	return ticks
}

// separator is a line between two groups.
type separator float64

// Plot implements plot.Plotter.
func (s separator) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	c.StrokeLine2(draw.LineStyle{Color: rule, Width: vg.Points(1)}, x(float64(s)), c.Min.Y, x(float64(s)), c.Max.Y)
}

// drawCDF draws the share of messages up to a latency, up to a limit.
func drawCDF(runs []sampled, curves []*curve, limit int64, label string) (*picture, error) {
	p := newPlot()
	addGrid(p, true)
	low := int64(math.MaxInt64)
	for i, curve := range curves {
		if curve == nil {
			continue
		}
		low = min(low, curve.points[0].ns)
		points := plotter.XYs{{X: microseconds(curve.points[0].ns), Y: 0}}
		for _, point := range curve.points {
			points = append(points, plotter.XY{X: microseconds(point.ns), Y: float64(point.rank) / float64(curve.count)})
			if point.ns > limit {
				break
			}
		}
		if err := addLine(p, points, runs[i].run.Path, plotter.PostStep); err != nil {
			return nil, fmt.Errorf("draw %s: %w", label, err)
		}
	}
	p.X.Min, p.X.Max = min(0, microseconds(low)), microseconds(limit)
	p.Y.Min, p.Y.Max = 0, 1
	p.X.Label.Text = "Latency, µs"
	p.X.Tick.Marker = plot.ConstantTicks(evenTicks(microseconds(limit)))
	p.Y.Tick.Marker = plot.ConstantTicks{{Value: 0, Label: "0"}, {Value: 0.25, Label: "25 %"}, {Value: 0.5, Label: "50 %"},
		{Value: 0.75, Label: "75 %"}, {Value: 0.9, Label: "90 %"}, {Value: 1, Label: "100 %"}}
	return &picture{p, halfWidth, halfHeight, label, pathsOf(runs), true, nil}, nil
}

// drawTail draws the share of messages from a latency on, both axes logarithmic.
func drawTail(runs []sampled, curves []*curve, label string) (*picture, error) {
	p := newPlot()
	p.X.Scale, p.X.Tick.Marker = symlog{}, across
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, shareTicks{}
	addGrid(p, true)
	rarest := 0.1 // some height for the axis, however few messages there are
	for i, curve := range curves {
		if curve == nil {
			continue
		}
		count := float64(curve.count)
		rarest = min(rarest, 1/count)
		var points plotter.XYs
		for _, point := range curve.points {
			points = append(points, plotter.XY{X: microseconds(point.ns), Y: (count - float64(point.rank) + 1) / count})
		}
		if err := addLine(p, points, runs[i].run.Path, plotter.PreStep); err != nil {
			return nil, fmt.Errorf("draw %s: %w", label, err)
		}
	}
	p.Y.Min, p.Y.Max = rarest, 1
	p.X.Label.Text = "Latency, µs"
	return &picture{p, halfWidth, halfHeight, label, pathsOf(runs), false, nil}, nil
}

func addLine(p *plot.Plot, points plotter.XYs, path string, step plotter.StepKind) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	look := lookOf(path)
	line.LineStyle = draw.LineStyle{Color: look.color, Width: vg.Points(1.6), Dashes: look.dashes}
	line.StepStyle = step
	p.Add(line)
	return nil
}
