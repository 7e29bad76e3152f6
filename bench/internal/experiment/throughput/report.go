// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/inference"
	"github.com/kubernetsn/kubernetsn/bench/internal/testbed"
	"github.com/kubernetsn/kubernetsn/bench/results"
)

const (
	gigabit     = 1e9
	microsecond = 1e3
)

var titles = map[string]string{tcp: "TCP", udp: "UDP", sctp: "SCTP", echo: "ping"}

// report is the experiment with its measurements.
type report struct {
	*Experiment
	profile  *engine.Profile
	measured []engine.Measured
	// mtus are the measured MTUs.
	mtus []int
}

// title is the title of a cell.
func (c cell) title() string {
	if c.underlay == routed {
		return titles[c.test] + ", " + mtuText(c.mtu) + ", routed"
	}
	return titles[c.test] + ", " + mtuText(c.mtu)
}

// Report returns the results of the cases.
func (e *Experiment) Report(profile *engine.Profile, measured []engine.Measured) engine.Findings {
	r := &report{e, profile, measured, e.mtus(profile)}
	findings := engine.Findings{}
	if !slices.Contains(e.Tests, sctp) {
		findings.Gaps = append(findings.Gaps, results.Gap{What: "throughput of SCTP (the paper measures it)", Why: "test sctp is not in the profile"})
	}
	if r.mtus[0] == asItIs {
		findings.Gaps = append(findings.Gaps, results.Gap{What: fmt.Sprintf("the MTUs %v", e.MTUs), Why: "a bench leaves the links of a cluster as they are"})
	}
	if transfers := r.transfers(); len(transfers) > 0 {
		findings.Sections = append(findings.Sections, r.throughput(transfers))
	}
	if slices.Contains(e.Tests, echo) {
		findings.Sections = append(findings.Sections, r.latency())
	}
	if names := r.components(); len(names) > 0 {
		findings.Sections = append(findings.Sections, r.processors(names))
	}
	return findings
}

// transfers are iperf3's tests.
func (r *report) transfers() []string {
	return slices.DeleteFunc(slices.Clone(r.Tests), func(test string) bool { return test == echo })
}

func (r *report) estimate(path string, c cell, value string) (inference.Estimate, bool) {
	return testbed.Estimated(r.measured, path, c.name(), value)
}

// groups are the cells of a chart in which paths are next to each other.
func (r *report) groups(tests []string) []cell {
	var all []cell
	for _, test := range tests {
		all = append(all, r.cells(r.profile, []string{test})...)
	}
	return all
}

// bars are a chart of a value.
func (r *report) bars(tests []string, value string, unit float64) (labels []string, lines []results.Line) {
	groups := r.groups(tests)
	for _, c := range groups {
		labels = append(labels, c.title())
	}
	for _, path := range r.profile.Paths {
		line := results.Line{Name: path}
		for at, c := range groups {
			if e, ok := r.estimate(path, c, value); ok {
				line.Points = append(line.Points, results.Point{X: float64(at), Y: e.Mean / unit, Low: (e.Mean - e.Error) / unit, High: (e.Mean + e.Error) / unit})
			}
		}
		lines = append(lines, line)
	}
	return labels, lines
}

// ratios compares the paths with each other, and the largest MTU with the smallest.
func (r *report) ratios(tests []string, value string) results.SectionTable {
	var all []testbed.Comparison
	for _, c := range r.groups(tests) {
		all = append(all, testbed.ComparePaths(c.title(), c.name(), value, r.profile.Paths)...)
	}
	small, large := slices.Min(r.mtus), slices.Max(r.mtus)
	for _, test := range tests {
		for _, path := range r.profile.Paths {
			if small != large {
				all = append(all, testbed.Comparison{What: fmt.Sprintf("%s over %s: %s ÷ %s", titles[test], path, mtuText(large), mtuText(small)), Value: value,
					Path: path, AgainstPath: path, Case: cell{test, r.Underlays[0], large}.name(), AgainstCase: cell{test, r.Underlays[0], small}.name()})
			}
		}
	}
	return testbed.Compare(r.measured, all)
}

func (r *report) throughput(tests []string) results.Section {
	labels, lines := r.bars(tests, ValueBps, gigabit)
	section := results.Section{ID: "throughput", Title: "Throughput",
		About: fmt.Sprintf("iperf3, one flow, %v each behind a second that does not count. TCP with the buffers of iperf3 and the system; UDP as fast as it can, "+
			"%d B at once. What counts is what arrived.", r.Duration, r.BufferBytes) + r.aboutSCTP(tests),
		Charts: []results.Chart{{ID: "bars", Title: "Throughput", Bars: true, Labels: labels, YAxis: "Throughput, Gbit/s", Lines: lines,
			Caption: "After figure 3 of the paper. The MTU is that of the link between the nodes. Lines on bars: the mean ± its standard error over repetitions."}},
		Tables: []results.SectionTable{r.transferTable(tests), r.ratios(tests, ValueBps)},
	}
	return section
}

// aboutSCTP describes how SCTP is measured, if it is.
func (r *report) aboutSCTP(tests []string) string {
	if !slices.Contains(tests, sctp) {
		return ""
	}
	return fmt.Sprintf(" SCTP is one association of usrsctp, a stack in user space, with messages of %d B in packets of IP protocol 132.", r.MessageBytes)
}

func (r *report) transferTable(tests []string) results.SectionTable {
	table := results.SectionTable{ID: "transfers", Title: "Throughput, mean ± standard error",
		Head: []string{"path", "test", "link MTU", "network MTU", "runs", "Gbit/s", "of host", "lost", "retransmits", "iperf3 cores, client", "server"}}
	for _, c := range r.groups(tests) {
		for _, path := range r.profile.Paths {
			e, ok := r.estimate(path, c, ValueBps)
			if !ok {
				continue
			}
			share := "-"
			if host, ok := r.estimate(testbed.Host, c, ValueBps); ok {
				share = percent(e.Mean / host.Mean)
			}
			table.Rows = append(table.Rows, []string{path, titles[c.test], c.link(), r.text(path, c, valueMTU, 1, 0), strconv.Itoa(e.Count),
				e.Text(gigabit, 3), share, r.share(path, c, valueLost), r.text(path, c, valueRetransmits, 1, 0),
				r.text(path, c, valueClient, 1, 2), r.text(path, c, valueServer, 1, 2)})
		}
	}
	return table
}

// text formats a value, or that it was not measured.
func (r *report) text(path string, c cell, value string, unit float64, digits int) string {
	e, ok := r.estimate(path, c, value)
	if !ok {
		return "-"
	}
	if value == valueMTU || value == valueRetransmits {
		e.Count = 1 // of interest without an error
	}
	return e.Text(unit, digits)
}

func (r *report) share(path string, c cell, value string) string {
	e, ok := r.estimate(path, c, value)
	if !ok {
		return "-"
	}
	return percent(e.Mean)
}

// link describes the underlay in a table.
func (c cell) link() string {
	if c.underlay == routed {
		return linkText(c.mtu) + ", routed"
	}
	return linkText(c.mtu)
}

func mtuText(mtu int) string {
	if mtu == asItIs {
		return "the cluster’s MTU"
	}
	return fmt.Sprintf("MTU %d", mtu)
}

func linkText(mtu int) string {
	if mtu == asItIs {
		return "the cluster’s"
	}
	return strconv.Itoa(mtu)
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func (r *report) latency() results.Section {
	labels, lines := r.bars([]string{echo}, ValueMean, microsecond)
	return results.Section{ID: "latency", Title: "Latency",
		About: fmt.Sprintf("%d echo requests of %d B, one each %v: round trips.", r.Pings, r.PingBytes, r.PingInterval),
		Charts: []results.Chart{{ID: "bars", Title: "Mean round trip of ping", Bars: true, Labels: labels, YAxis: "Round trip, µs", Lines: lines,
			Caption: "After figure 4 of the paper. Lines on bars: the mean ± its standard error over repetitions."}},
		Tables: []results.SectionTable{r.latencyTable(), r.ratios([]string{echo}, ValueMean)},
	}
}

func (r *report) latencyTable() results.SectionTable {
	table := results.SectionTable{ID: "round-trips", Title: "Round trips in µs, mean over repetitions ± standard error",
		Head: []string{"path", "link MTU", "runs", "mean", "p50", "p99", "unanswered"}}
	for _, c := range r.groups([]string{echo}) {
		for _, path := range r.profile.Paths {
			e, ok := r.estimate(path, c, ValueMean)
			if !ok {
				continue
			}
			lost, _ := r.estimate(path, c, valueUnanswered)
			table.Rows = append(table.Rows, []string{path, c.link(), strconv.Itoa(e.Count), e.Text(microsecond, 1),
				r.text(path, c, ValueP50, microsecond, 1), r.text(path, c, ValueP99, microsecond, 1),
				fmt.Sprintf("%.0f", lost.Mean*float64(lost.Count))})
		}
	}
	return table
}

// processors is the processor time meanwhile.
func (r *report) processors(names []string) results.Section {
	section := results.Section{ID: "processors", Title: "Processors meanwhile",
		About: "Cores during the tests above: programs that belong to a network and not to the test, and all cores of the machine together, " +
			"where somebody counts them. iperf3 and ping are part of the machine’s. The agent and the network plugin do nothing " +
			"while packets flow: the plugin ends when a pod is attached."}
	table := results.SectionTable{ID: "cores", Title: "Cores, mean ± standard error", Head: append([]string{"path", "test", "link MTU"}, heads(names)...)}
	for _, c := range r.groups(r.Tests) {
		for _, path := range r.profile.Paths {
			row := []string{path, titles[c.test], c.link()}
			for _, name := range names {
				row = append(row, r.text(path, c, name, 1, 4))
			}
			if slices.ContainsFunc(row[3:], func(cell string) bool { return cell != "-" }) {
				table.Rows = append(table.Rows, row)
			}
		}
	}
	section.Tables = []results.SectionTable{table}
	return section
}

// components are the values of cores other than iperf3's own.
func (r *report) components() []string {
	names := map[string]bool{}
	for _, measurement := range r.measured {
		for name := range measurement.Values {
			if strings.HasSuffix(name, testbed.Cores) && !strings.HasPrefix(name, "iperf3") {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func heads(names []string) []string {
	var all []string
	for _, name := range names {
		all = append(all, strings.ReplaceAll(strings.TrimSuffix(name, testbed.Cores), "_", " "))
	}
	return all
}
