// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// TablesName is the file of WriteTables in a folder.
const TablesName = "tables.md"

// WriteTables writes the figures of a measurement as Markdown for archiving: date, place and conditions, and a table of
// each kind of figure. The folder docs/measurements/results consists of such files.
func WriteTables(out io.Writer, summary *results.Summary) error {
	var text strings.Builder
	text.WriteString(tablesHead(summary))
	for _, table := range tablesOf(summary) {
		text.WriteString(tableMarkdown(&table))
	}
	for _, section := range summary.Sections {
		text.WriteString(sectionMarkdown(&section))
	}
	for _, list := range listsOf(summary) {
		text.WriteString(list.markdown())
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// tablesHead describes the measurement.
func tablesHead(summary *results.Summary) string {
	host := &summary.Host
	lines := []string{"Date: " + host.Date.UTC().Format("2 January 2006, 15:04 UTC")}
	title := "Demo"
	if profile := summary.Profile; profile != nil {
		title = "Profile `" + cmp.Or(profile.Name, "without a name") + "`"
		lines = append(lines, fmt.Sprintf("Size: %d of %d runs, target %s, seed %d", profile.Done, profile.Runs, profile.Target, profile.Seed))
	} else {
		lines = append(lines, fmt.Sprintf("Size: %d messages of each path and payload in %d alternations", summary.Setup.Messages,
			summary.Setup.Alternations))
	}
	machine := fmt.Sprintf("Machine: %s, %d cores, Linux %s", host.CPUModel, host.Cores, host.Kernel)
	if !inCluster(summary) { // not watched there
		machine += fmt.Sprintf(", clock source %s; the hypervisor took %.2f cores", host.ClockSource, summary.StolenCores)
	}
	lines = append(lines, machine)
	if host.KtsndVersion != "" {
		lines = append(lines, fmt.Sprintf("ktsnd: %s, %s priority %d", host.KtsndVersion, host.Scheduler, host.SchedulerPriority))
	}
	if spinning := summary.SpinningTalkers(); spinning != "" {
		lines = append(lines, "talkers that spin: "+spinning)
	}
	if len(summary.Runs) > 0 && !inCluster(summary) {
		lines = append(lines, "Processors: "+pinned(summary.Setup))
	}
	if summary.Idle != nil {
		lines = append(lines, idle(summary.Idle))
	}
	if summary.Emulated != "" {
		lines = append(lines, "Emulated: "+summary.Emulated)
	}
	return "# " + title + "\n\n- " + strings.Join(lines, "\n- ") + "\n"
}

// tableMarkdown returns "" for a table without rows. Columns are aligned, because the tables are also printed on terminals.
func tableMarkdown(t *results.SectionTable) string {
	if len(t.Rows) == 0 {
		return ""
	}
	rows := append([][]string{t.Head}, t.Rows...)
	widths := make([]int, len(t.Head))
	for i, row := range rows {
		rows[i] = slices.Clone(row)
		for column, cell := range row {
			rows[i][column] = strings.ReplaceAll(cell, "|", `\|`)
			widths[column] = max(widths[column], utf8.RuneCountInString(rows[i][column]))
		}
	}
	var text strings.Builder
	text.WriteString("\n## " + t.Title + "\n\n")
	for i, row := range rows {
		for column, cell := range row {
			text.WriteString("| " + cell + strings.Repeat(" ", widths[column]-utf8.RuneCountInString(cell)+1))
		}
		text.WriteString("|\n")
		if i > 0 {
			continue
		}
		for _, width := range widths {
			text.WriteString("|" + strings.Repeat("-", width+2))
		}
		text.WriteString("|\n")
	}
	return text.String()
}

// list is a list of statements with its title.
type list struct {
	title     string
	sentences []string
}

// markdown returns "" for an empty list.
func (l *list) markdown() string {
	if len(l.sentences) == 0 {
		return ""
	}
	return "\n## " + l.title + "\n\n- " + strings.Join(l.sentences, "\n- ") + "\n"
}

func sectionMarkdown(section *results.Section) string {
	var text strings.Builder
	text.WriteString("\n## " + section.Title + "\n")
	for _, table := range section.Tables {
		text.WriteString(strings.Replace(tableMarkdown(&table), "\n## ", "\n### ", 1))
	}
	return text.String()
}

func tablesOf(summary *results.Summary) []results.SectionTable {
	return []results.SectionTable{messageTable(summary.Runs), causeTable(summary.Runs), requestTable(summary.Runs), classTable(summary.Runs), limitTable(summary.Figures),
		ratioTable(summary.Ratios), usageTable(summary.Usage)}
}

// keyCells identify a run.
func keyCells(run *results.Run) []string {
	return []string{run.Workload, run.Path, strconv.Itoa(run.PayloadBytes), results.Micros(run.CycleNs)}
}

var keyHead = []string{"workload", "path", "B", "cycle, µs"}

func messageTable(runs []*results.Run) results.SectionTable {
	t := results.SectionTable{Title: "Latency and jitter, µs",
		Head: slices.Concat(keyHead, []string{"p50", "p90", "p99", "p99.9", "max", "± clocks", "jitter p50", "jitter p99", "lost", "early", "late",
			"sending side, cores"})}
	for _, run := range runs {
		row := append(slices.Concat(keyCells(run), distributionCells(run.Latency)), clockText(run))
		jitter := []string{"", ""}
		if run.Jitter != nil {
			jitter = []string{results.Micros(run.Jitter.AbsP50), results.Micros(run.Jitter.AbsP99)}
		}
		row = append(append(row, jitter...), strconv.Itoa(run.Lost), strconv.Itoa(run.Early), known("%d", run.Late), known("%.3f", run.SendingCores))
		t.Rows = append(t.Rows, row)
	}
	return t
}

// known formats a value; "" if there is none.
func known[T any](format string, value *T) string {
	if value == nil {
		return ""
	}
	return fmt.Sprintf(format, *value)
}

// clockText is the error of a latency's clocks; empty if nothing arrived.
func clockText(run *results.Run) string {
	if run.Latency == nil {
		return ""
	}
	return run.ClockError.Text()
}

func distributionCells(summary *stats.Summary) []string {
	if summary == nil {
		return make([]string, 5)
	}
	var cells []string
	for _, ns := range []int64{summary.P50, summary.P90, summary.P99, summary.P99_9, summary.Max} {
		cells = append(cells, results.Micros(ns))
	}
	return cells
}

// causeTable lists the parts of the latency, and the processor time.
func causeTable(runs []*results.Run) results.SectionTable {
	t := results.SectionTable{Title: "Departure, launch and send call, µs; processor time, cores",
		Head: slices.Concat(keyHead, []string{"departure p50", "p99", "launch p50", "p99", "port p50", "send call p50", "programs"})}
	for _, run := range runs {
		row := slices.Concat(keyCells(run), medianAndP99(run.DepartureError), medianAndP99(run.LaunchError), medianAndP99(run.Port)[:1],
			medianAndP99(run.SendCall)[:1])
		var programs []string
		for _, name := range slices.Sorted(maps.Keys(run.CPUCores)) {
			programs = append(programs, fmt.Sprintf("%s %.3f", name, run.CPUCores[name]))
		}
		t.Rows = append(t.Rows, append(row, strings.Join(programs, ", ")))
	}
	return t
}

// requestTable lists how far frames were on the wire from the time that applications in virtual machines requested.
func requestTable(runs []*results.Run) results.SectionTable {
	t := results.SectionTable{Title: "Between virtual machines: on the wire, counted from what the application asked for by the true clock, µs",
		Head: slices.Concat(keyHead, []string{"p50", "p99", "least", "p99 of the absolute value", "bound of what the talker’s machine knows"})}
	for _, run := range runs {
		if summary := run.RequestError; summary != nil {
			bound := ""
			if run.ClockError != nil && run.ClockError.Talker != nil {
				bound = results.Micros(*run.ClockError.Talker)
			}
			t.Rows = append(t.Rows, slices.Concat(keyCells(run), []string{results.Micros(summary.P50), results.Micros(summary.P99), results.Micros(summary.Min),
				results.Micros(summary.AbsP99), bound}))
		}
	}
	return t
}

func medianAndP99(summary *stats.Summary) []string {
	if summary == nil {
		return make([]string, 2)
	}
	return []string{results.Micros(summary.P50), results.Micros(summary.P99)}
}

func classTable(runs []*results.Run) results.SectionTable {
	t := results.SectionTable{Title: "Frames on the wire, by class",
		Head: slices.Concat(keyHead, []string{"class", "window, µs", "sent", "frames", "cycles", "outside", "overruns"})}
	for _, run := range runs {
		for i := range run.Gates {
			class := &run.Gates[i]
			t.Rows = append(t.Rows, slices.Concat(keyCells(run), []string{strconv.Itoa(int(class.TrafficClass)),
				results.Micros(class.OpenNs) + " to " + results.Micros(class.CloseNs), strconv.Itoa(class.Sent), strconv.Itoa(class.Frames),
				strconv.Itoa(class.Cycles), strconv.Itoa(class.OutsideWindow), strconv.FormatUint(class.TransmissionOverrun, 10)}))
		}
	}
	return t
}

func limitTable(figures []results.Figure) results.SectionTable {
	t := results.SectionTable{Title: "Figures with a limit", Head: []string{"figure", "limit", "values by payload", "reached"}}
	for i := range figures {
		figure := &figures[i]
		var values []string
		for _, payload := range slices.SortedFunc(maps.Keys(figure.Values), byNumber) {
			value := figure.Amount(figure.Values[payload])
			if payload != results.Independent {
				value = payload + " B: " + value
			}
			values = append(values, value)
		}
		reached := "no"
		switch {
		case figure.Reached:
			reached = "yes"
		case figure.NotJudged != "":
			reached = "not judged: " + figure.NotJudged
		}
		t.Rows = append(t.Rows, []string{figure.Name, figure.Amount(figure.Limit), strings.Join(values, ", "), reached})
	}
	return t
}

// byNumber orders payloads as numbers; other keys come first.
func byNumber(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// ratioTable compares runs with each other.
func ratioTable(ratios []results.Ratio) results.SectionTable {
	t := results.SectionTable{ID: "ratios", Title: "Ratios", Head: []string{"figure", "run", "against", "B", "cycle, µs", "ratio", "from", "to", ""}}
	for i := range ratios {
		ratio := &ratios[i]
		verdict := ""
		switch {
		case ratio.Doubt != "":
			verdict = "not judged: " + ratio.Doubt
		case ratio.Low <= 1 && ratio.High >= 1:
			verdict = "no difference shown"
		}
		t.Rows = append(t.Rows, []string{ratio.Figure, ratio.Workload + " " + ratio.Path, ratio.AgainstLoad + " " + ratio.AgainstPath,
			strconv.Itoa(ratio.PayloadBytes), results.Micros(ratio.CycleNs), fmt.Sprintf("%.2f", ratio.Value), fmt.Sprintf("%.2f", ratio.Low),
			fmt.Sprintf("%.2f", ratio.High), verdict})
		t.Title = fmt.Sprintf("Ratios, and between which values each lies with a confidence of %.0f %%", ratio.Confidence*100)
	}
	return t
}

func usageTable(usage []results.Usage) results.SectionTable {
	t := results.SectionTable{ID: "usage", Title: "Nodes and pods", Head: []string{"node", "pod", "container", "cores", "MiB", "times counted"}}
	for _, process := range usage {
		t.Rows = append(t.Rows, []string{process.Node, process.Pod, process.Container, fmt.Sprintf("%.3f", process.Cores),
			fmt.Sprintf("%.1f", float64(process.MemoryBytes)/(1<<20)), strconv.Itoa(process.Counted)})
	}
	return t
}

func listsOf(summary *results.Summary) []list {
	gaps, assertions := list{title: "Not measured"}, list{title: "Assertions"}
	for _, gap := range summary.NotMeasured {
		gaps.sentences = append(gaps.sentences, gap.What+": "+gap.Why)
	}
	for _, assertion := range summary.Assertions {
		verdict := "holds"
		if !assertion.Holds {
			verdict = "does not hold"
		}
		assertions.sentences = append(assertions.sentences, fmt.Sprintf("%#q %s: %s", assertion.Expression, verdict, assertion.Detail))
	}
	return []list{gaps, {"Warnings", summary.Warnings}, {"Problems", summary.Problems}, assertions}
}
