// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// unmeasured is a cell for a percentile with too few messages.
const unmeasured = "–"

// Report implements engine.Experiment.
func (s *scale) Report(_ *engine.Profile, measured []engine.Measured) engine.Findings {
	section := results.Section{ID: "scale", Title: "What more flows and more pods cost", About: s.about()}
	lines := linesOf(s.Cycles, measured)
	for i := range lines {
		section.Tables = append(section.Tables, lines[i].departures(), lines[i].costs())
	}
	if len(lines) > 0 {
		section.Charts = charts(lines)
	}
	return engine.Findings{Sections: []results.Section{section}, Figures: figures(lines), Gaps: []results.Gap{
		{What: "pods of a cluster, and what kubelet and the agent cost", Why: "the pods are network namespaces with a ktsnd of their own"}}}
}

func (s *scale) about() string {
	return fmt.Sprintf("The messages of all flows are spread evenly over the cycle; %v for each case, with a ktsnd of its own. Flows are sockets "+
		"of one pod, in processes of at most 250; pods have a process with one flow each. Figures are medians over the repetitions, bars the least "+
		"and the most of them. A percentile is given where each repetition has ten messages beyond it. Departure errors are those of messages that "+
		"were handed over in time.", s.Lasts)
}

// name identifies a line.
func (l *line) name() string {
	if l.kind == byPods {
		return "pods of one flow, each " + durationText(l.cycle)
	}
	return "flows of one pod, each " + durationText(l.cycle)
}

// id identifies a table about the line.
func (l *line) id(table string) string {
	return strings.ReplaceAll(fmt.Sprintf("%s-%s-%s", l.kind, durationText(l.cycle), table), ".", "-")
}

func charts(lines []line) []results.Chart {
	all := []results.Chart{
		{ID: "cores", Title: "Processor time of ktsnd", XAxis: "flows", YAxis: "Cores", LogX: true},
		{ID: "talker-cores", Title: "Processor time of the sending applications", XAxis: "flows", YAxis: "Cores", LogX: true},
		{ID: "memory", Title: "Memory of ktsnd", XAxis: "flows", YAxis: "MiB", LogX: true,
			Caption: "Of cases with many messages 24 bytes for each departure that is remembered are added."},
	}
	for _, q := range []quantile{p50, p99, p99_9, largest} {
		all = append(all, results.Chart{ID: q.id, Title: "Departure error, " + q.name, XAxis: "flows", YAxis: "µs", LogX: true,
			LogY: q.id != p50.id, Caption: "Where each repetition has enough messages."})
	}
	for i := range lines {
		curve := curves(&lines[i])
		for c := range all {
			all[c].Lines = append(all[c].Lines, results.Line{Name: lines[i].name(), Points: curve[all[c].ID]})
		}
	}
	return all
}

// curves are the points of a line by chart.
func curves(l *line) map[string][]results.Point {
	all := map[string][]results.Point{}
	add := func(id string, p *point, values []float64, unit, least float64) {
		scaled := make([]float64, len(values))
		for i, value := range values {
			scaled[i] = max(value/unit, least)
		}
		all[id] = append(all[id], spread(p.number, scaled))
	}
	for _, p := range l.points {
		add("cores", p, p.values(valueCores), 1, 0)
		add("talker-cores", p, p.values(valueTalkerCores), 1, 0)
		add("memory", p, p.values(valueMemory), 1<<20, 0)
		for _, q := range []quantile{p50, p99, p99_9, largest} {
			if values, known := p.departure(q); known {
				add(q.id, p, values, 1000, 0.001)
			}
		}
	}
	return all
}

func (l *line) departures() results.SectionTable {
	quantiles := []quantile{p50, p90, p99, p99_9, largest}
	table := results.SectionTable{ID: l.id("departures"), Title: "Departure error, µs: " + l.name(),
		Head: []string{"number", "messages", "a second", "lost", "handed over late"}}
	for _, q := range quantiles {
		table.Head = append(table.Head, q.name)
	}
	table.Head = append(table.Head, "most", "counted as late", "stops", "pauses")
	for _, p := range l.points {
		row := []string{strconv.Itoa(p.number), strconv.Itoa(p.sum(valueSent)), fmt.Sprintf("%.0f", p.median(valueRate)),
			strconv.Itoa(p.sum(valueLost)), strconv.Itoa(p.sum(valueHandedLate))}
		for _, q := range quantiles {
			row = append(row, p.cell(q))
		}
		table.Rows = append(table.Rows, append(row, p.most(), p.late(), p.stops(), strconv.Itoa(p.sum(valuePauses))))
	}
	return table
}

func (p *point) cell(q quantile) string {
	values, known := p.departure(q)
	if !known {
		return unmeasured
	}
	return results.Micros(int64(stats.Median(values)))
}

// most is the largest error of all repetitions.
func (p *point) most() string {
	values, known := p.departure(largest)
	if !known {
		return unmeasured
	}
	return results.Micros(int64(slices.Max(values)))
}

// late are ktsnd's counts, by reason.
func (p *point) late() string {
	var reasons []string
	for _, name := range slices.Sorted(maps.Keys(p.repetitions[0].values)) {
		if reason, isLate := strings.CutPrefix(name, valueLatePrefix); isLate && p.sum(name) > 0 {
			reasons = append(reasons, fmt.Sprintf("%s %d", reason, p.sum(name)))
		}
	}
	if len(reasons) == 0 {
		return "0"
	}
	return strings.Join(reasons, ", ")
}

// stops are those by the kernel's real-time budget, if there is one.
func (p *point) stops() string {
	for _, repetition := range p.repetitions {
		if _, known := repetition.values[valueStops]; !known {
			return unmeasured
		}
	}
	return strconv.Itoa(p.sum(valueStops))
}

func (l *line) costs() results.SectionTable {
	table := results.SectionTable{ID: l.id("costs"), Title: "Cost: " + l.name(), Head: []string{"number", "ktsnd, cores", "µs a message", "talkers, cores",
		"wake-ups a message", "doorbells a message", "MiB", "grown by, KiB each"}}
	for _, p := range l.points {
		table.Rows = append(table.Rows, []string{strconv.Itoa(p.number), fmt.Sprintf("%.4f", p.median(valueCores)),
			fmt.Sprintf("%.2f", p.median(valueMessageUs)), fmt.Sprintf("%.4f", p.median(valueTalkerCores)), fmt.Sprintf("%.2f", p.median(valueWakeups)),
			fmt.Sprintf("%.2f", p.median(valueDoorbells)), fmt.Sprintf("%.1f", p.median(valueMemory)/(1<<20)),
			fmt.Sprintf("%.1f", p.grownBytes()/1024/float64(p.number))})
	}
	return table
}
