// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// Names of the files of WriteFolder.
const (
	PageName    = "report.html"
	SummaryName = "summary.json"
	plotsName   = "plots"
	figuresName = "figures.csv"
	ratiosName  = "ratios.csv"
	usageName   = "usage.csv"
)

// Formats are the formats of drawings as files.
var Formats = []string{"svg", "png"}

// data are the points of a drawing.
type data struct {
	Name    string
	Columns []string
	Rows    [][]string
}

func (d *data) add(path string, values ...int64) {
	row := []string{path}
	for _, value := range values {
		row = append(row, strconv.FormatInt(value, 10))
	}
	d.Rows = append(d.Rows, row)
}

// WriteFolder writes the page into a folder, with each drawing as a file in a format, the points of the drawings and
// all figures as CSV and as tables in Markdown, and summary.json, or one for each of several measurements.
func WriteFolder(dir, format string, measurements ...*Measurement) error {
	page, err := newPage(measurements)
	if err != nil {
		return err
	}
	err = writeFolder(dir, format, page, measurements)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("no space is left in %s for the report; what was measured is kept: free some, and `ktsn bench report` writes it (%w)", dir, err)
	}
	return err
}

func writeFolder(dir, format string, page *page, measurements []*Measurement) error {
	plots := filepath.Join(dir, plotsName)
	if err := os.MkdirAll(plots, 0o755); err != nil {
		return fmt.Errorf("make folder for drawings: %w", err)
	}
	if err := write(filepath.Join(dir, PageName), func(out io.Writer) error { return pageTemplate.Execute(out, page) }); err != nil {
		return err
	}
	for i, measurement := range measurements {
		if err := writePart(dir, plots, format, &page.Parts[i], measurement); err != nil {
			return err
		}
	}
	return nil
}

// write writes a file atomically.
func write(path string, content func(io.Writer) error) error {
	if err := results.WriteFile(path, content); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func writePart(dir, plots, format string, part *part, measurement *Measurement) error {
	summary := measurement.Summary
	for _, figure := range part.figures() {
		for i, drawing := range figure.Drawings {
			name := fmt.Sprintf("%s-%d.%s", figure.ID, i+1, format)
			err := write(filepath.Join(plots, name), func(out io.Writer) error { return drawing.picture.write(out, format) })
			if err != nil {
				return err
			}
		}
		for _, data := range figure.Data {
			if err := writeCSV(filepath.Join(plots, data.Name+".csv"), data.Columns, data.Rows); err != nil {
				return err
			}
		}
	}
	if err := results.WriteJSON(filepath.Join(dir, part.Prefix+SummaryName), summary); err != nil {
		return err
	}
	tables := func(out io.Writer) error { return WriteTables(out, summary) }
	if err := write(filepath.Join(dir, part.Prefix+TablesName), tables); err != nil {
		return err
	}
	err := writeCSV(filepath.Join(dir, part.Prefix+figuresName),
		[]string{"path", "workload", "payload_bytes", "cycle_ns", "alternation", "figure", "value"}, figureRows(summary))
	if err != nil {
		return err
	}
	err = writeCSV(filepath.Join(dir, part.Prefix+ratiosName),
		[]string{"figure", "path", "workload", "against_path", "against_workload", "payload_bytes", "cycle_ns", "value", "low", "high"},
		ratioRows(summary))
	if err != nil {
		return err
	}
	if err := writeDistribution(dir, part.Prefix, newDistribution(measurement)); err != nil {
		return err
	}
	return writeUsage(filepath.Join(dir, part.Prefix+usageName), summary.Usage)
}

// writeDistribution writes nothing if there is no distribution, and no picture if its paths were not measured.
func writeDistribution(dir, prefix string, d *distribution) error {
	if d == nil {
		return nil
	}
	if err := write(filepath.Join(dir, prefix+distributionName), d.write); err != nil {
		return err
	}
	drawn, err := d.picture()
	if err != nil || drawn == nil {
		return err
	}
	return write(filepath.Join(dir, prefix+pictureName), func(out io.Writer) error { return drawn.write(out, "svg") })
}

// writeUsage writes nothing if the usage is unknown.
func writeUsage(path string, usage []results.Usage) error {
	if len(usage) == 0 {
		return nil
	}
	var rows [][]string
	for _, process := range usage {
		rows = append(rows, []string{process.Node, process.Pod, process.Container, strconv.FormatFloat(process.Cores, 'g', -1, 64),
			strconv.FormatInt(process.OverNs, 10), strconv.FormatInt(process.MemoryBytes, 10), strconv.Itoa(process.Counted)})
	}
	return writeCSV(path, []string{"node", "pod", "container", "cores", "over_ns", "memory_bytes", "counted"}, rows)
}

func writeCSV(path string, columns []string, rows [][]string) error {
	return write(path, func(out io.Writer) error {
		writer := csv.NewWriter(out)
		if err := writer.Write(columns); err != nil {
			return err
		}
		return writer.WriteAll(rows)
	})
}

// figureRows are all figures of all runs and cases, a line each; alternation 0 is all of them together.
func figureRows(summary *results.Summary) [][]string {
	var rows [][]string
	for _, run := range summary.Runs {
		rows = append(rows, rowsOf(run, 0, &run.Counts, &run.Distributions)...)
		for i := range run.Alternations {
			rows = append(rows, rowsOf(run, i+1, &run.Alternations[i].Counts, &run.Alternations[i].Distributions)...)
		}
	}
	for _, current := range summary.Cases {
		rows = append(rows, caseRows(current)...)
	}
	return rows
}

// caseRows are the figures of an experiment's case: the mean over repetitions, its standard error, and each repetition.
func caseRows(c *results.Case) [][]string {
	var rows [][]string
	write := func(repetition int, figure string, value float64, digits int) {
		rows = append(rows, []string{c.Path, c.Name, "", "", strconv.Itoa(repetition), figure, strconv.FormatFloat(value, 'g', digits, 64)})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Figures)) {
		figure := c.Figures[name]
		write(0, name, figure.Mean, -1)
		if figure.StandardError != nil {
			write(0, name+".standard_error", *figure.StandardError, 6)
		}
		for _, value := range figure.Values {
			write(value.Repetition, name, value.Value, -1)
		}
	}
	return rows
}

func rowsOf(run *results.Run, alternation int, counts *results.Counts, distributions *results.Distributions) [][]string {
	var rows [][]string
	add := func(figure, value string) {
		rows = append(rows, []string{run.Path, run.Workload, strconv.Itoa(run.PayloadBytes), strconv.FormatInt(run.CycleNs, 10),
			strconv.Itoa(alternation), figure, value})
	}
	whole := func(figure string, value int64) { add(figure, strconv.FormatInt(value, 10)) }
	whole("sent", int64(counts.Sent))
	whole("received", int64(counts.Received))
	whole("lost", int64(counts.Lost))
	whole("early", int64(counts.Early))
	if counts.Late != nil {
		whole("late", int64(*counts.Late))
	}
	summaries := []struct {
		name    string
		summary *stats.Summary
	}{{"latency_ns", distributions.Latency}, {"launch_error_ns", distributions.LaunchError},
		{"departure_error_ns", distributions.DepartureError}, {"port_ns", distributions.Port}, {"send_call_ns", distributions.SendCall}}
	if jitter := distributions.Jitter; jitter != nil {
		summaries = append(summaries, struct {
			name    string
			summary *stats.Summary
		}{"jitter_ns", &jitter.Summary})
		whole("jitter_ns.abs_p50", jitter.AbsP50)
		whole("jitter_ns.abs_p99", jitter.AbsP99)
	}
	for _, summary := range summaries {
		if s := summary.summary; s != nil {
			for i, name := range []string{"min", "p50", "p90", "p99", "p99_9", "max"} {
				whole(summary.name+"."+name, []int64{s.Min, s.P50, s.P90, s.P99, s.P99_9, s.Max}[i])
			}
		}
	}
	if summary := distributions.ClockError; summary != nil && distributions.Latency != nil {
		for i, name := range []string{"talker", "listener", "combined"} {
			if ns := []*int64{summary.Talker, summary.Listener, summary.Combined}[i]; ns != nil {
				whole("clock_error_ns."+name, *ns)
			}
		}
	}
	if cores := distributions.SendingCores; cores != nil {
		add("sending_cores", strconv.FormatFloat(*cores, 'g', -1, 64))
	}
	for _, program := range slices.Sorted(maps.Keys(distributions.CPUCores)) {
		add("cpu_cores."+program, strconv.FormatFloat(distributions.CPUCores[program], 'g', -1, 64))
	}
	return rows
}

func ratioRows(summary *results.Summary) [][]string {
	decimal := func(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }
	var rows [][]string
	for _, ratio := range summary.Ratios {
		rows = append(rows, []string{ratio.Figure, ratio.Path, ratio.Workload, ratio.AgainstPath, ratio.AgainstLoad,
			strconv.Itoa(ratio.PayloadBytes), strconv.FormatInt(ratio.CycleNs, 10), decimal(ratio.Value), decimal(ratio.Low), decimal(ratio.High)})
	}
	return rows
}
