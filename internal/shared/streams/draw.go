// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/shared/schedule"
)

// Measures of a drawing, in pixels.
const (
	drawnWidth   = 1000
	rowHeight    = 24
	barHeight    = 16
	letterWidth  = 7
	drawnTicks   = 10
	legendColumn = 190
	// maxBars bounds the size of a drawing; of longer cycles the beginning is drawn.
	maxBars = 20_000
)

type bar struct {
	startNs, wireNs, guardNs int64
	stream                   int
	title                    string
}

// WriteSVG draws the windows of each port over time, as far as the longest cycle. in is the input that was solved.
func (p *Plan) WriteSVG(out io.Writer, in *Input) error {
	n, fault := in.check()
	if fault != nil {
		return fault
	}
	guards := map[string]int64{}
	for i := range n.ports {
		guards[n.ports[i].name] = n.ports[i].guardNs
	}
	lengthNs := p.drawnNs()
	bars := map[string][]bar{}
	for i := range p.Streams {
		a := &p.Streams[i]
		intervalNs := a.Interval.Nanoseconds()
		for _, frame := range a.Frames {
			for _, h := range frame.Hops {
				title := fmt.Sprintf("%s, class %d, at %s: %s after the beginning of the interval, %s on the wire", a.Name, a.TrafficClass, h.Port,
					schedule.FormatNs(h.StartNs, false), schedule.FormatNs(h.WireNs, false))
				// A window that began one interval earlier may still reach into the drawing.
				for at := h.StartNs%intervalNs - intervalNs; at < lengthNs; at += intervalNs {
					bars[h.Port] = append(bars[h.Port], bar{at, h.WireNs, guards[h.Port], i, title})
				}
			}
		}
	}
	return p.writeSVG(out, bars, lengthNs)
}

// drawnNs returns the longest cycle, or less if it has too many windows.
func (p *Plan) drawnNs() (lengthNs int64) {
	for i := range p.Ports {
		lengthNs = max(lengthNs, p.Ports[i].Table.AdminCycleTime.Nanoseconds())
	}
	count := func() (bars int64) {
		for i := range p.Streams {
			for _, frame := range p.Streams[i].Frames {
				bars += (lengthNs/p.Streams[i].Interval.Nanoseconds() + 1) * int64(len(frame.Hops))
			}
		}
		return bars
	}
	for lengthNs > 1000 && count() > maxBars {
		lengthNs /= 2
	}
	return lengthNs
}

func (p *Plan) writeSVG(out io.Writer, bars map[string][]bar, lengthNs int64) error {
	names := sortedKeys(bars)
	left := 20
	for _, name := range names {
		left = max(left, 20+letterWidth*len(name))
	}
	legendRows := (len(p.Streams)*legendColumn + left + drawnWidth - 1) / (left + drawnWidth)
	if len(p.Streams) > 60 {
		legendRows = 0 // the titles of the bars name the streams
	}
	bottom := 30 + rowHeight*len(names)
	x := func(ns int64) float64 {
		return float64(left) + drawnWidth*float64(min(max(ns, 0), lengthNs))/float64(lengthNs)
	}
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n"+
		"<title>Windows of the ports over %s</title>\n"+`<rect width="100%%" height="100%%" fill="white"/>`+"\n",
		left+drawnWidth+40, bottom+30+rowHeight*legendRows, schedule.FormatNs(lengthNs, false))
	for tick := int64(0); tick <= drawnTicks; tick++ {
		at := lengthNs * tick / drawnTicks
		fmt.Fprintf(&s, `<path d="M%.1f 24V%d" stroke="#ddd"/><text x="%.1f" y="16" text-anchor="middle">%s</text>`+"\n", x(at), bottom, x(at),
			schedule.FormatNs(at, false))
	}
	for row, name := range names {
		y := 30 + rowHeight*row
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">%s</text><path d="M%d %dH%d" stroke="#999"/>`+"\n", left-8, y+barHeight-4,
			html.EscapeString(name), left, y+barHeight, left+drawnWidth)
		slices.SortFunc(bars[name], func(a, b bar) int { return cmp.Compare(a.startNs, b.startNs) })
		for _, b := range bars[name] {
			endNs := b.startNs + b.wireNs
			if endNs+b.guardNs <= 0 || b.startNs >= lengthNs {
				continue
			}
			fmt.Fprintf(&s, `<g fill="%s"><title>%s</title>`, color(b.stream), html.EscapeString(b.title))
			if b.guardNs > 0 {
				fmt.Fprintf(&s, `<rect x="%.2f" y="%d" width="%.2f" height="%d" opacity="0.3"/>`, x(endNs), y, x(endNs+b.guardNs)-x(endNs), barHeight)
			}
			fmt.Fprintf(&s, `<rect x="%.2f" y="%d" width="%.2f" height="%d"/></g>`+"\n", x(b.startNs), y, max(0.5, x(endNs)-x(b.startNs)), barHeight)
		}
	}
	if legendRows > 0 {
		columns := (left + drawnWidth) / legendColumn
		for i := range p.Streams {
			atX, atY := 10+legendColumn*(i%columns), bottom+20+rowHeight*(i/columns)
			fmt.Fprintf(&s, `<rect x="%d" y="%d" width="12" height="12" fill="%s"/><text x="%d" y="%d">%s, %s</text>`+"\n", atX, atY, color(i), atX+18, atY+11,
				html.EscapeString(p.Streams[i].Name), schedule.FormatNs(p.Streams[i].WorstCaseLatencyNs, false))
		}
	}
	s.WriteString("</svg>\n")
	_, err := io.WriteString(out, s.String())
	return err
}

// color returns distant hues for consecutive streams (golden angle).
func color(stream int) string {
	return fmt.Sprintf("hsl(%d,65%%,%d%%)", stream*137%360, 40+stream%3*8)
}
