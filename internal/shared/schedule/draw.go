// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Style is the capability of the terminal.
type Style struct {
	// Width is the number of columns.
	Width int
	// ASCII restricts the drawing to ASCII characters.
	ASCII bool
}

// glyphs of a drawing: a gate that is open, shut, or moves back and forth within one column; the ruler and its marks.
type glyphs struct {
	open, shut, partly, rule, left, mark, right string
}

func (s Style) glyphs() glyphs {
	if s.ASCII {
		return glyphs{"#", ".", "+", "-", "+", "+", "+"}
	}
	return glyphs{"█", "·", "▒", "─", "└", "┴", "┘"}
}

const (
	// labelWidth is that of "TC7 |" without the bar.
	labelWidth = 4
	minColumns = 20
)

// Draw draws the cycle, one row a class, the most important on top, with the time below; nothing when there is none.
//
//	TC7 |████········|
//	    └───┴────────┘
//	    0   300 µs 1 ms
func (c Cycle) Draw(style Style) string {
	columns := max(minColumns, style.Width-labelWidth-2)
	windows := c.windows()
	if len(windows) == 0 {
		return ""
	}
	var out strings.Builder
	hidden := false
	for class := control.TrafficClasses - 1; class >= 0; class-- {
		row, hides := c.row(windows, class, columns, style.glyphs())
		hidden = hidden || hides
		fmt.Fprintf(&out, "TC%d |%s|\n", class, row)
	}
	out.WriteString(c.ruler(windows, columns, style.glyphs()))
	out.WriteString(c.labels(windows, columns, style.ASCII))
	if hidden {
		fmt.Fprintf(&out, "%s: the gate moves more than once within this column\n", style.glyphs().partly)
	}
	return out.String()
}

// columnNs returns the beginning of a column.
func (c Cycle) columnNs(column, columns int) int64 {
	return int64(float64(c.TimeNs) * float64(column) / float64(columns))
}

// column returns the column of a time.
func (c Cycle) column(ns int64, columns int) int {
	column := int(float64(ns) / float64(c.TimeNs) * float64(columns))
	for column+1 <= columns && c.columnNs(column+1, columns) <= ns { // rounding
		column++
	}
	for column > 0 && c.columnNs(column, columns) > ns {
		column--
	}
	return column
}

// row rounds to whole columns, except where that would hide that the gate moves.
func (c Cycle) row(windows []window, class, columns int, glyphs glyphs) (row string, hidden bool) {
	var out strings.Builder
	edges := gateEdges(windows, class)
	for column := range columns {
		from, to := c.columnNs(column, columns), c.columnNs(column+1, columns)
		open := openNs(windows, class, from, to)
		switch {
		case open == 0:
			out.WriteString(glyphs.shut)
		case open == to-from:
			out.WriteString(glyphs.open)
		case edgesWithin(edges, from, to) > 1:
			out.WriteString(glyphs.partly)
			hidden = true
		case 2*open >= to-from:
			out.WriteString(glyphs.open)
		default:
			out.WriteString(glyphs.shut)
		}
	}
	return out.String(), hidden
}

// gateEdges returns begin and end of the cycle and the times at which the gate of a class changes.
func gateEdges(windows []window, class int) []int64 {
	var edges []int64
	for i, window := range windows {
		if i == 0 || (window.states^windows[i-1].states)>>class&1 == 1 {
			edges = append(edges, window.fromNs)
		}
	}
	return append(edges, windows[len(windows)-1].toNs)
}

// edgesWithin counts the edges between two times, both inclusive.
func edgesWithin(edges []int64, fromNs, toNs int64) int {
	count := 0
	for _, edge := range edges {
		if edge >= fromNs && edge <= toNs {
			count++
		}
	}
	return count
}

// edges returns the beginnings of all windows except the first.
func edges(windows []window) []int64 {
	var all []int64
	for _, window := range windows {
		if window.fromNs > 0 {
			all = append(all, window.fromNs)
		}
	}
	return all
}

// ruler has a mark in the column in which a window begins.
func (c Cycle) ruler(windows []window, columns int, glyphs glyphs) string {
	line := make([]string, columns)
	for i := range line {
		line[i] = glyphs.rule
	}
	for _, edge := range edges(windows) {
		line[c.column(edge, columns)] = glyphs.mark
	}
	return strings.Repeat(" ", labelWidth) + glyphs.left + strings.Join(line, "") + glyphs.right + "\n"
}

// labels names as many marks as there is room for; begin and end of the cycle always are.
func (c Cycle) labels(windows []window, columns int, ascii bool) string {
	end := FormatNs(c.TimeNs, ascii)
	endAt := labelWidth + columns + 2 - utf8.RuneCountInString(end)
	var line strings.Builder
	line.WriteString(strings.Repeat(" ", labelWidth) + "0")
	used := labelWidth + 1
	for _, edge := range edges(windows) {
		at := labelWidth + 1 + c.column(edge, columns)
		label := FormatNs(edge, ascii)
		width := utf8.RuneCountInString(label)
		if at <= used || at+width >= endAt {
			continue
		}
		line.WriteString(strings.Repeat(" ", at-used) + label)
		used = at + width
	}
	line.WriteString(strings.Repeat(" ", max(1, endAt-used)) + end + "\n")
	return line.String()
}
