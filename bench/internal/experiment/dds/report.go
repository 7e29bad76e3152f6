// SPDX-License-Identifier: Apache-2.0

package dds

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/kubernetsn/kubernetsn/bench/internal/ddsperf"
	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/inference"
	"github.com/kubernetsn/kubernetsn/bench/internal/testbed"
	"github.com/kubernetsn/kubernetsn/bench/results"
)

const (
	megabit     = 1e6
	microsecond = 1e3
	mebibyte    = 1 << 20
)

// report is the experiment with its measurements.
type report struct {
	*Experiment
	profile  *engine.Profile
	measured []engine.Measured
}

// Report returns the results of the cases.
func (e *Experiment) Report(profile *engine.Profile, measured []engine.Measured) engine.Findings {
	r := &report{e, profile, measured}
	sections := map[string]func() results.Section{overhead: r.overhead, bestEffort: r.bestEffort, subscribers: r.subscribers, security: r.security}
	var findings engine.Findings
	for _, part := range []string{overhead, bestEffort, subscribers, security} {
		if slices.Contains(e.Parts, part) {
			findings.Sections = append(findings.Sections, sections[part]())
		}
	}
	findings.Gaps = []results.Gap{
		{What: "a container beside none (the paper's experiment 1)", Why: "a bench starts programs in network namespaces, or in pods, and never both"},
		{What: "encryption by the network (IPsec, the paper's experiment 5)", Why: "none of these networks encrypts"},
	}
	for _, path := range profile.Paths {
		if slices.Contains(e.Parts, subscribers) && !testbed.HasMulticast(path) {
			findings.Gaps = append(findings.Gaps, results.Gap{What: "multicast over " + path, Why: "the network routes between nodes and carries none"})
		}
	}
	return findings
}

func (r *report) estimate(path string, k kind, value string) (inference.Estimate, bool) {
	return testbed.Estimated(r.measured, path, k.name(), value)
}

// column is a value of a table.
type column struct {
	head, value string
	unit        float64
	digits      int
}

var (
	throughputColumns = []column{{"Mbit/s", valueBps, megabit, 1}, {"samples/s", valueSamples, 1, 0}, {"lost, %", valueLost, 0.01, 2}}
	latencyColumns    = []column{{"mean, µs", valueMean, microsecond, 1}, {"p50", valueP50, microsecond, 1}, {"p90", valueP90, microsecond, 1},
		{"p99", valueP99, microsecond, 1}, {"timeouts", valueTimeouts, 1, 0}}
	costColumns = []column{{"publisher, cores", valuePublisherCores, 1, 2}, {"subscribers", valueSubscribersCores, 1, 2},
		{"machine", testbed.MachineCores, 1, 2}, {"publisher, MiB", valuePublisherMemory, mebibyte, 1}, {"subscribers, MiB", valueSubscribersMemory, mebibyte, 1}}
)

// row is a row of a table: its label, and its case.
type row struct {
	names []string
	path  string
	kind  kind
}

// table drops rows and columns without measurements.
func (r *report) table(id, title string, heads []string, rows []row, columns []column) results.SectionTable {
	columns = slices.DeleteFunc(slices.Clone(columns), func(c column) bool {
		return !slices.ContainsFunc(rows, func(current row) bool { _, ok := r.estimate(current.path, current.kind, c.value); return ok })
	})
	table := results.SectionTable{ID: id, Title: title, Head: append(slices.Clone(heads), "runs")}
	for _, c := range columns {
		table.Head = append(table.Head, c.head)
	}
	for _, current := range rows {
		cells, runs := slices.Clone(current.names), 0
		var values []string
		for _, c := range columns {
			text := "-"
			if e, ok := r.estimate(current.path, current.kind, c.value); ok {
				text, runs = e.Text(c.unit, c.digits), max(runs, e.Count)
			}
			values = append(values, text)
		}
		if runs > 0 {
			table.Rows = append(table.Rows, append(append(cells, strconv.Itoa(runs)), values...))
		}
	}
	return table
}

// lines are a value of a kind that depends on a number, for each path.
func (r *report) lines(name string, paths []string, numbers []int, kindOf func(int) kind, value string, unit float64) []results.Line {
	var lines []results.Line
	for _, path := range paths {
		line := results.Line{Name: path + name}
		for _, number := range numbers {
			if e, ok := r.estimate(path, kindOf(number), value); ok {
				line.Points = append(line.Points, results.Point{X: float64(number), Y: e.Mean / unit, Low: (e.Mean - e.Error) / unit, High: (e.Mean + e.Error) / unit})
			}
		}
		if len(line.Points) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

func bySize(measure string, bestEffort bool) func(int) kind {
	return func(bytes int) kind {
		k := plain(measure, bytes)
		k.bestEffort = bestEffort
		return k
	}
}

const about = "One sample in a message (ddsperf’s batching is made void by a limit of the message’s size). Throughput is of payload, counted by each " +
	"subscriber, from its first whole second to its last. Latency is half of a round trip; the next ping leaves when the last was answered, so a pause " +
	"delays one ping and no other. Percentiles are means of those that ddsperf prints each second, by number of answers: a slow second, which has fewer, counts less."

func (r *report) overhead() results.Section {
	sizes := slices.Sorted(slices.Values(r.Sizes))
	var rows []row
	for _, bytes := range sizes {
		for _, path := range r.profile.Paths {
			rows = append(rows, row{[]string{path, strconv.Itoa(bytes)}, path, plain(throughput, bytes)})
		}
	}
	latencies := slices.Clone(rows)
	for i := range latencies {
		latencies[i].kind.measure = latency
	}
	var ratios []testbed.Comparison
	for _, bytes := range sizes {
		ratios = append(ratios, testbed.ComparePaths(fmt.Sprintf("throughput, %d B", bytes), plain(throughput, bytes).name(), valueBps, r.profile.Paths)...)
		for _, value := range []struct{ name, value string }{{"p90", valueP90}, {"median", valueP50}} {
			ratios = append(ratios, testbed.ComparePaths(fmt.Sprintf("%s of latency, %d B", value.name, bytes), plain(latency, bytes).name(), value.value, r.profile.Paths)...)
		}
	}
	heads := []string{"path", "B"}
	return results.Section{ID: overhead, Title: "What networks cost: one publisher, one subscriber, reliable", About: about,
		Charts: []results.Chart{
			{ID: "throughput", Title: "Throughput by size", XAxis: "Payload, B", YAxis: "Throughput, Mbit/s", LogX: true, LogY: true,
				Lines:   r.lines("", r.profile.Paths, sizes, bySize(throughput, false), valueBps, megabit),
				Caption: "After figure 4 of the paper: mean throughput; both axes are logarithmic."},
			{ID: "latency", Title: "p90 of latency by size", XAxis: "Payload, B", YAxis: "Latency, µs", LogX: true, LogY: true,
				Lines:   r.lines("", r.profile.Paths, sizes, bySize(latency, false), valueP90, microsecond),
				Caption: "After figure 4 of the paper: the 90th percentile of latency."},
		},
		Tables: []results.SectionTable{
			r.relative("table-1-throughput", "Less throughput than host in %, mean throughput (ΔT of the paper's table 1)"+inBrackets, sizes, plainOf(throughput), valueBps, -1),
			r.relative("table-1-latency", "More latency than host in %, p90 (ΔL of the paper's table 1)"+inBrackets, sizes, plainOf(latency), valueP90, 1),
			r.relative("median-latency", "More latency than host in %, median"+inBrackets, sizes, plainOf(latency), valueP50, 1),
			r.table("throughput", "Throughput", heads, rows, slices.Concat(throughputColumns, costColumns)),
			r.table("latency", "Latency", heads, latencies, slices.Concat(latencyColumns, costColumns)),
			testbed.Compare(r.measured, ratios),
		},
	}
}

// compare compares two kinds over a path.
func compare(what, path, value string, first, other kind) testbed.Comparison {
	return testbed.Comparison{What: what, Value: value, Path: path, AgainstPath: path, Case: first.name(), AgainstCase: other.name()}
}

func plainOf(measure string) func(int) kind { return bySize(measure, false) }

// inBrackets explains the brackets in relative tables.
var inBrackets = "; in brackets, with several repetitions: between which values it lies with " + testbed.Confidence

// relative is a table of differences from path host in percent, with the range of each.
func (r *report) relative(id, title string, sizes []int, kindOf func(int) kind, value string, sign float64) results.SectionTable {
	table := results.SectionTable{ID: id, Title: title, Head: []string{"path"}}
	for _, bytes := range sizes {
		table.Head = append(table.Head, strconv.Itoa(bytes)+" B")
	}
	for _, path := range r.profile.Paths {
		cells, known := []string{path}, false
		for _, bytes := range sizes {
			estimate, ok := r.estimate(path, kindOf(bytes), value)
			other, both := r.estimate(testbed.Host, kindOf(bytes), value)
			cell := "-"
			if ok && both && other.Mean > 0 {
				cell, known = percentMore(estimate, other, sign), true
			}
			cells = append(cells, cell)
		}
		if known && path != testbed.Host {
			table.Rows = append(table.Rows, cells)
		}
	}
	return table
}

// percentMore is how much more, or with a sign of -1 less, one figure is than another, in percent of that.
func percentMore(first, other inference.Estimate, sign float64) string {
	text := fmt.Sprintf("%.1f", sign*100*(first.Mean/other.Mean-1))
	quotient, known := inference.QuotientOf(first, other)
	if !known {
		return text
	}
	ends := []float64{sign * 100 * (quotient.Low - 1), sign * 100 * (quotient.High - 1)}
	return fmt.Sprintf("%s (%.1f to %.1f)", text, slices.Min(ends), slices.Max(ends))
}

func (r *report) bestEffort() results.Section {
	sizes := slices.Sorted(slices.Values(r.Sizes))
	var rows []row
	var ratios []testbed.Comparison
	for _, bytes := range sizes {
		for _, path := range r.profile.Paths {
			ratios = append(ratios, compare(fmt.Sprintf("p90 of latency over %s, %d B: best effort ÷ reliable", path, bytes), path, valueP90,
				bySize(latency, true)(bytes), plain(latency, bytes)))
			for _, unreliable := range []bool{false, true} {
				rows = append(rows, row{[]string{path, strconv.Itoa(bytes), reliability(unreliable)}, path, bySize(latency, unreliable)(bytes)})
			}
		}
	}
	return results.Section{ID: bestEffort, Title: "Best effort",
		About: "One publisher, one subscriber. With a lost ping ddsperf waits a second for the next, which counts as a timeout.",
		Charts: []results.Chart{{ID: "latency", Title: "p90 of latency by size, best effort", XAxis: "Payload, B", YAxis: "Latency, µs", LogX: true, LogY: true,
			Lines: r.lines("", r.profile.Paths, sizes, bySize(latency, true), valueP90, microsecond), Caption: "After figure 5 of the paper."}},
		Tables: []results.SectionTable{r.table("latency", "Latency", []string{"path", "B", "quality"}, rows, latencyColumns),
			testbed.Compare(r.measured, ratios)},
	}
}

func reliability(unreliable bool) string {
	if unreliable {
		return "best effort"
	}
	return "reliable"
}

// among returns the kind with several subscribers.
func (r *report) among(measure string, multicast bool) func(int) kind {
	return func(count int) kind {
		k := plain(measure, r.Size)
		k.subscribers, k.multicast = count, multicast
		return k
	}
}

func (r *report) subscribers() results.Section {
	counts := slices.Sorted(slices.Values(r.Subscribers))
	lines := func(measure, value string, unit float64) []results.Line {
		return append(r.lines("", r.profile.Paths, counts, r.among(measure, false), value, unit),
			r.lines(", multicast", r.profile.Paths, counts, r.among(measure, true), value, unit)...)
	}
	chart := func(id, title, axis, measure, value string, unit float64) results.Chart {
		return results.Chart{ID: id, Title: title, XAxis: "Subscribers", YAxis: axis, Lines: lines(measure, value, unit), Caption: "After figure 6 of the paper."}
	}
	var rows, latencies []row
	var ratios []testbed.Comparison
	for _, count := range counts {
		for _, path := range r.profile.Paths {
			for _, what := range []struct{ name, value string }{{"throughput", valueBps}, {"cores of the publisher", valuePublisherCores}} {
				ratios = append(ratios, compare(fmt.Sprintf("%s over %s, %d subscribers: multicast ÷ unicast", what.name, path, count), path, what.value,
					r.among(throughput, true)(count), r.among(throughput, false)(count)))
			}
			ratios = append(ratios, compare(fmt.Sprintf("throughput over %s, unicast: %d ÷ %d subscribers", path, count, counts[0]), path, valueBps,
				r.among(throughput, false)(count), r.among(throughput, false)(counts[0])))
			for _, multicast := range []bool{false, true} {
				names := []string{path, strconv.Itoa(count), delivery(multicast)}
				rows = append(rows, row{names, path, r.among(throughput, multicast)(count)})
				latencies = append(latencies, row{names, path, r.among(latency, multicast)(count)})
			}
		}
	}
	heads := []string{"path", "subscribers", "delivery"}
	return results.Section{ID: subscribers, Title: "Several subscribers, unicast and multicast",
		About: fmt.Sprintf("Samples of %d B, reliable. Throughput is the mean over the subscribers of what each received; latency is over all of them: a ping "+
			"goes to all, and the next one when all have answered.", r.Size),
		Charts: []results.Chart{chart("throughput", "Throughput of a subscriber", "Throughput, Mbit/s", throughput, valueBps, megabit),
			chart("latency", "p90 of latency", "Latency, µs", latency, valueP90, microsecond),
			chart("publisher", "What the publisher takes while it publishes", "Cores", throughput, valuePublisherCores, 1)},
		Tables: []results.SectionTable{r.table("throughput", "Throughput", heads, rows, slices.Concat(throughputColumns, costColumns)),
			r.table("latency", "Latency", heads, latencies, slices.Concat(latencyColumns, costColumns)), testbed.Compare(r.measured, ratios)},
	}
}

func delivery(multicast bool) string {
	if multicast {
		return "multicast"
	}
	return "unicast"
}

// secured returns the kind with a level of security.
func (r *report) secured(measure, level string) kind {
	k := plain(measure, r.Size)
	k.level = level
	return k
}

func (r *report) security() results.Section {
	var rows, latencies []row
	var ratios []testbed.Comparison
	for _, path := range r.securityPaths(r.profile) {
		for _, level := range r.Levels {
			for _, what := range []struct{ measure, value string }{{throughput, valueBps}, {latency, valueP90}} {
				if level != ddsperf.NoSecurity {
					ratios = append(ratios, compare(fmt.Sprintf("%s over %s: %s ÷ %s", what.measure, path, level, ddsperf.NoSecurity), path, what.value,
						r.secured(what.measure, level), r.secured(what.measure, ddsperf.NoSecurity)))
				}
			}
			names := []string{path, level}
			rows = append(rows, row{names, path, r.secured(throughput, level)})
			latencies = append(latencies, row{names, path, r.secured(latency, level)})
		}
	}
	bars := func(id, title, axis, measure, value string, unit float64) results.Chart {
		chart := results.Chart{ID: id, Title: title, YAxis: axis, Bars: true, Labels: r.Levels, Caption: "After figure 7 of the paper."}
		for _, path := range r.securityPaths(r.profile) {
			line := results.Line{Name: path}
			for i, level := range r.Levels {
				if e, ok := r.estimate(path, r.secured(measure, level), value); ok {
					line.Points = append(line.Points, results.Point{X: float64(i), Y: e.Mean / unit, Low: (e.Mean - e.Error) / unit, High: (e.Mean + e.Error) / unit})
				}
			}
			chart.Lines = append(chart.Lines, line)
		}
		return chart
	}
	heads := []string{"path", "level"}
	return results.Section{ID: security, Title: "DDS Security",
		About: fmt.Sprintf("One publisher, one subscriber, samples of %d B, reliable; the plugins of Cyclone DDS. Each level but %s authenticates participants; what "+
			"it is called says what it does for each message besides.", r.Size, ddsperf.NoSecurity),
		Charts: []results.Chart{bars("throughput", "Throughput by level", "Throughput, Mbit/s", throughput, valueBps, megabit),
			bars("latency", "p90 of latency by level", "Latency, µs", latency, valueP90, microsecond)},
		Tables: []results.SectionTable{r.table("throughput", "Throughput", heads, rows, slices.Concat(throughputColumns, costColumns)),
			r.table("latency", "Latency", heads, latencies, slices.Concat(latencyColumns, costColumns)), testbed.Compare(r.measured, ratios)},
	}
}
