// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// TextTable is a table for a terminal: the first column is aligned left, the others right.
type TextTable [][]string

// Row adds a row.
func (t *TextTable) Row(cells ...string) { *t = append(*t, cells) }

// Print writes the table, with two blanks before each column.
func (t TextTable) Print(out io.Writer) error {
	var widths []int
	for _, row := range t {
		for column, cell := range row {
			if column == len(widths) {
				widths = append(widths, 0)
			}
			widths[column] = max(widths[column], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range t {
		var line strings.Builder
		for column, cell := range row {
			padding := strings.Repeat(" ", widths[column]-utf8.RuneCountInString(cell))
			if column == 0 {
				line.WriteString("  " + cell + padding)
			} else {
				line.WriteString("  " + padding + cell)
			}
		}
		if _, err := fmt.Fprintln(out, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// PrintFigures prints the comparison with the project's targets, a column for each payload.
func PrintFigures(out io.Writer, all []results.Figure) error {
	if len(all) == 0 {
		return nil
	}
	targets := newTargetTable(all)
	header := []string{"Figures (at most; medians)", "limit"}
	for _, payload := range targets.Payloads {
		header = append(header, fmt.Sprintf("%d B", payload))
	}
	if len(targets.Payloads) == 0 {
		header = append(header, "")
	}
	var table TextTable
	table.Row(append(header, "")...)
	for i := range targets.Rows {
		table.Row(targets.Rows[i].text()...)
	}
	if err := table.Print(out); err != nil {
		return err
	}
	for i := range targets.Rows {
		if row := &targets.Rows[i]; row.NotJudged != "" {
			if _, err := fmt.Fprintf(out, "  not judged: %s: %s\n", row.Name, row.NotJudged); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintln(out)
	return err
}

// text writes a figure that does not depend on the payload in the first column of values.
func (r *targetRow) text() []string {
	values := slices.Clone(r.Values)
	switch {
	case len(values) == 0:
		values = []string{r.Whole}
	case r.Whole != "":
		values[0] = r.Whole
	}
	return append(append([]string{r.Name, r.Limit}, values...), r.Verdict)
}
