// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// unmeasured is a cell without a value.
const unmeasured = "–"

// table is rows of numbers, each about a path, grouped by payload.
type table struct {
	ID    string
	Title string
	Head  []string
	Rows  []row
}

type row struct {
	// Opens: a new payload begins.
	Opens        bool
	PayloadBytes int
	Path         string
	Swatch       template.HTML
	Cells        []cell
}

// cell is a number, formatted and exact.
type cell struct {
	Text string
	// Exact is in nanoseconds for times; empty if nothing was measured.
	Exact string
	// Bad marks a count that should be 0.
	Bad bool
}

func timeCell(ns int64) cell {
	return cell{Text: micros(ns), Exact: strconv.FormatInt(ns, 10)}
}

// micros formats microseconds like the terminal, large ones with commas.
func micros(ns int64) string {
	if ns > -999_500 && ns < 999_500 {
		return strings.Replace(results.Micros(ns), "-", "−", 1)
	}
	return thousands(math.RoundToEven(microseconds(ns)))
}

func countCell(count int) cell {
	return cell{Text: thousands(float64(count)), Exact: strconv.Itoa(count)}
}

// zeroCell is a count that should be 0.
func zeroCell(count int) cell {
	c := countCell(count)
	c.Bad = count != 0
	return c
}

// shareCell is a share as a percentage.
func shareCell(share float64) cell {
	return cell{Text: fmt.Sprintf("%.2f %%", share*100), Exact: strconv.FormatFloat(share, 'g', -1, 64)}
}

func noCells(count int) []cell {
	return slices.Repeat([]cell{{Text: unmeasured}}, count)
}

// newTable has a row for each run.
func newTable(id, title string, runs []sampled, head []string, cells func(*sampled) []cell) table {
	t := table{ID: id, Title: title, Head: head}
	for i := range runs {
		run := runs[i].run
		t.Rows = append(t.Rows, row{
			Opens:        i == 0 || runs[i-1].run.PayloadBytes != run.PayloadBytes,
			PayloadBytes: run.PayloadBytes,
			Path:         run.Path,
			Swatch:       lookOf(run.Path).swatch(),
			Cells:        cells(&runs[i]),
		})
	}
	return t
}

// boxTable lists the numbers of the boxes.
func boxTable(id, title string, runs []sampled, boxOf func(*sampled) *box) table {
	head := []string{"messages", "min", "p1", "p25", "p50", "p75", "p90", "p99", "p99.9", "max"}
	return newTable(id, title, runs, head, func(s *sampled) []cell {
		b := boxOf(s)
		if b == nil {
			return noCells(len(head))
		}
		cells := []cell{countCell(b.count)}
		for _, ns := range []int64{b.min, b.p1, b.p25, b.p50, b.p75, b.p90, b.p99, b.p99_9, b.max} {
			cells = append(cells, timeCell(ns))
		}
		return cells
	})
}

// latencyTable adds the processor time, if it was watched.
func latencyTable(id string, runs []sampled) table {
	t := boxTable(id, latencyAxis, runs, latencyBox)
	t.Head = append(t.Head, "± clocks", "sending side, cores")
	for i := range t.Rows {
		t.Rows[i].Cells = append(t.Rows[i].Cells, clockCell(runs[i].run), knownCoresCell(runs[i].run.SendingCores))
	}
	return withoutEmpty(t)
}

// clockCell is the error of a latency's clocks; empty if nothing arrived.
func clockCell(run *results.Run) cell {
	if run.Latency == nil {
		return noCells(1)[0]
	}
	clockError := run.ClockError
	c := cell{Text: clockError.Text(), Bad: clockError.DoubtOf() != ""}
	if clockError != nil && clockError.Combined != nil {
		c.Exact = strconv.FormatInt(*clockError.Combined, 10)
	}
	return c
}

// jitterTable adds the absolute value, which the targets use.
func jitterTable(id string, runs []sampled) table {
	t := boxTable(id, jitterAxis, runs, jitterBox)
	t.Head[0] = "pairs"
	t.Head = append(t.Head, "abs p50", "abs p99")
	for i := range t.Rows {
		if jitter := runs[i].run.Jitter; jitter != nil {
			t.Rows[i].Cells = append(t.Rows[i].Cells, timeCell(jitter.AbsP50), timeCell(jitter.AbsP99))
		} else {
			t.Rows[i].Cells = append(t.Rows[i].Cells, noCells(2)...)
		}
	}
	return t
}

// cdfTable lists the numbers of the curves: the largest latency of a share of messages, and the share beyond the axis.
func cdfTable(id string, runs []sampled, limit int64) table {
	head := []string{"messages", "50 %", "90 %", "99 %", "99.9 %", "all", "beyond the axis"}
	return newTable(id, "µs", runs, head, func(s *sampled) []cell {
		if s.latency == nil {
			return noCells(len(head))
		}
		b := s.latency
		share := beyond(s.latencyNs, limit)
		return []cell{countCell(b.count), timeCell(b.p50), timeCell(b.p90), timeCell(b.p99), timeCell(b.p99_9),
			timeCell(b.max), shareCell(share)}
	})
}

// causesTable lists the parts of the latency, and the processor time.
func causesTable(id string, runs []sampled) table {
	head := []string{"departure p50", "p99", "launch p50", "p99", "request p50", "p99", "least", "port p50", "p99", "send call p50", "p99",
		"lost", "early", "late", "sending side, cores", "talker", "ktsnd", "relay", "listener", "machine"}
	switched := slices.ContainsFunc(runs, func(s sampled) bool { return s.run.Path == results.PathOVS })
	if switched {
		head = append(head, "Open vSwitch", "its share")
	}
	all := newTable(id, "µs", runs, head, func(s *sampled) []cell {
		cells := causesCells(s.run)
		if switched {
			cells = append(cells, switchCells(s.run)...)
		}
		return cells
	})
	return withoutEmpty(all)
}

// withoutEmpty drops columns without values, such as departures between pods of a cluster.
func withoutEmpty(t table) table {
	for column := len(t.Head) - 1; column >= 0; column-- {
		measured := slices.ContainsFunc(t.Rows, func(r row) bool { return r.Cells[column] != noCells(1)[0] })
		if measured {
			continue
		}
		t.Head = slices.Delete(t.Head, column, column+1)
		for i := range t.Rows {
			t.Rows[i].Cells = slices.Delete(t.Rows[i].Cells, column, column+1)
		}
	}
	return t
}

// switchCells are Open vSwitch's processor time, and its part of the latency.
func switchCells(run *results.Run) []cell {
	cores, known := run.CPUCores["ovs-vswitchd"]
	if run.SwitchShare == nil {
		return []cell{coresCell(cores, known), noCells(1)[0]}
	}
	return []cell{coresCell(cores, known), shareCell(*run.SwitchShare)}
}

// requestCells are about messages between virtual machines, whose applications use their own clocks.
func requestCells(request *stats.Jitter) []cell {
	if request == nil {
		return noCells(3)
	}
	return []cell{timeCell(request.P50), timeCell(request.P99), timeCell(request.Min)}
}

func causesCells(run *results.Run) []cell {
	cells := slices.Concat(pairCells(run.DepartureError), pairCells(run.LaunchError), requestCells(run.RequestError), pairCells(run.Port), pairCells(run.SendCall))
	cells = append(cells, zeroCell(run.Lost), zeroCell(run.Early))
	if run.Late != nil {
		cells = append(cells, countCell(int(*run.Late)))
	} else {
		cells = append(cells, noCells(1)...)
	}
	cells = append(cells, knownCoresCell(run.SendingCores))
	for _, program := range []string{"talker", "ktsnd", "relay", "listener"} {
		share, known := run.CPUCores[program]
		cells = append(cells, coresCell(share, known))
	}
	return append(cells, knownCoresCell(run.MachineCores))
}

func knownCoresCell(cores *float64) cell {
	if cores == nil {
		return noCells(1)[0]
	}
	return coresCell(*cores, true)
}

func coresCell(share float64, known bool) cell {
	if !known {
		return noCells(1)[0]
	}
	return cell{Text: fmt.Sprintf("%.3f", share), Exact: strconv.FormatFloat(share, 'g', -1, 64)}
}

func pairCells(summary *stats.Summary) []cell {
	if summary == nil {
		return noCells(2)
	}
	return []cell{timeCell(summary.P50), timeCell(summary.P99)}
}

// targetRow is one figure of the project with its limit.
type targetRow struct {
	Name, Limit string
	// Values are one for each payload, or Whole is the only one.
	Values  []string
	Whole   string
	Reached bool
	// Verdict is whether the target is reached, and NotJudged why that is unknown.
	Verdict, NotJudged string
}

// targetTable has a column for each payload.
type targetTable struct {
	Payloads []int
	Rows     []targetRow
	Reached  int
	// NotJudged is the number of figures without a verdict.
	NotJudged int
}

func newTargetTable(figures []results.Figure) targetTable {
	var t targetTable
	for _, figure := range figures {
		for key := range figure.Values {
			if payload, err := strconv.Atoi(key); err == nil && !slices.Contains(t.Payloads, payload) {
				t.Payloads = append(t.Payloads, payload)
			}
		}
	}
	slices.Sort(t.Payloads)
	for _, figure := range figures {
		row := targetRow{Name: figure.Name, Limit: figure.Amount(figure.Limit), Reached: figure.Reached, Verdict: figure.Verdict(), NotJudged: figure.NotJudged}
		if value, ok := figure.Values[results.Independent]; ok {
			row.Whole = figure.Amount(value)
		}
		for _, payload := range t.Payloads {
			text := ""
			if value, ok := figure.Values[strconv.Itoa(payload)]; ok {
				text = figure.Amount(value)
			}
			row.Values = append(row.Values, text)
		}
		if figure.Reached {
			t.Reached++
		}
		if figure.NotJudged != "" {
			t.NotJudged++
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
