// SPDX-License-Identifier: Apache-2.0

package links

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/experiment/throughput"
	"github.com/kubernetsn/kubernetsn/bench/internal/testbed"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

const (
	gigabit     = 1e9
	microsecond = 1e3
	millisecond = 1e6
	kibibyte    = 1 << 10
)

// Report implements engine.Experiment.
func (e *Experiment) Report(profile *engine.Profile, measured []engine.Measured) engine.Findings {
	findings := engine.Findings{}
	if slices.Contains(e.Parts, transfers) {
		findings = e.Experiment.Report(transferring(profile), measured)
		findings.Sections = append([]results.Section{besideFlannel(measured)}, findings.Sections...)
	}
	if slices.Contains(e.Parts, timed) {
		findings.Sections = append(findings.Sections, e.timed(profile, measured))
	}
	if slices.Contains(e.Parts, many) {
		findings.Sections = append(findings.Sections, e.many(measured))
	}
	findings.Figures = e.figures(measured)
	return findings
}

// text is the median, and the range.
func (s spread) text(unit float64, digits int) string {
	switch s.count {
	case 0:
		return "-"
	case 1:
		return fmt.Sprintf("%.*f", digits, s.median/unit)
	}
	return fmt.Sprintf("%.*f (%.*f to %.*f)", digits, s.median/unit, digits, s.least/unit, digits, s.most/unit)
}

func besideFlannel(measured []engine.Measured) results.Section {
	table := results.SectionTable{ID: "medians", Title: "Medians over the repetitions, least and most",
		Head: []string{"test", "unit", testbed.Host, testbed.Flannel, testbed.Link, "link ÷ flannel", "link ÷ host"}}
	for _, name := range transferNames(measured) {
		value, unit, word, digits := throughput.ValueBps, float64(gigabit), "Gbit/s", 3
		if valueOf(name) == throughput.ValueP50 {
			value, unit, word, digits = throughput.ValueP50, microsecond, "µs, p50", 1
		}
		row := []string{name, word}
		for _, path := range []string{testbed.Host, testbed.Flannel, testbed.Link} {
			row = append(row, spreadOf(valuesOf(seen(measured, path, name, value))).text(unit, digits))
		}
		for _, other := range []string{testbed.Flannel, testbed.Host} {
			row = append(row, ratios(measured, testbed.Link, other, name, value).text(1, 2))
		}
		table.Rows = append(table.Rows, row)
	}
	return results.Section{ID: "beside-flannel", Title: "A link beside Flannel’s VXLAN and the bare link",
		About: "Medians and ranges of what the sections below have as means. A test is named after the MTU of the link between the nodes, and " +
			"`routed` after a router between them, as between two clusters. Ratios are those of the same repetition, in which the paths take turns.",
		Tables: []results.SectionTable{table}}
}

// percentiles are those of a sample in each repetition.
func percentiles(measured []engine.Measured, path, name, sample string, hundredths int) spread {
	var all []float64
	for _, measurement := range measured {
		if values := measurement.Samples[sample]; measurement.Case.Path == path && measurement.Case.Name == name && len(values) > 0 {
			all = append(all, float64(stats.Percentile(slices.Sorted(slices.Values(values)), hundredths)))
		}
	}
	return spreadOf(all)
}

func (e *Experiment) timed(profile *engine.Profile, measured []engine.Measured) results.Section {
	table := results.SectionTable{ID: "messages", Title: "Medians over the repetitions, least and most",
		Head: []string{"path", "departure error p50, ns", "p99, ns", "latency p50, µs", "p99, µs", "lost", "early", "not by ktsnd"}}
	for _, path := range timedPaths(profile) {
		row := []string{path}
		for _, column := range []struct {
			sample     string
			hundredths int
			unit       float64
			digits     int
		}{{sampleDeparted, 5000, 1, 0}, {sampleDeparted, 9900, 1, 0}, {sampleLatency, 5000, microsecond, 1}, {sampleLatency, 9900, microsecond, 1}} {
			row = append(row, percentiles(measured, path, timed, column.sample, column.hundredths).text(column.unit, column.digits))
		}
		for _, value := range []string{valueLost, valueEarly, valueOthers} {
			var sum float64
			for _, current := range seen(measured, path, timed, value) {
				sum += current
			}
			row = append(row, fmt.Sprintf("%.0f", sum))
		}
		table.Rows = append(table.Rows, row)
	}
	return results.Section{ID: "timed", Title: "Messages with a transmit time",
		About: fmt.Sprintf("%d messages of %d B, one each %v, handed over %v ahead. The departure error is ktsnd’s reading of the clock that released a "+
			"frame less the requested time; the latency is until a listener that polls has the message.", e.Messages, e.PayloadBytes, e.Cycle, e.Lead),
		Tables: []results.SectionTable{table}}
}

// manyPrefix begins the names of cases of part many.
const manyPrefix = "links-"

func manyName(number int) string { return manyPrefix + strconv.Itoa(number) }

func (e *Experiment) many(measured []engine.Measured) results.Section {
	table := results.SectionTable{ID: "plugged", Title: "Medians over the repetitions, least and most",
		Head: []string{"links", "plugging all, s", "one, p50, ms", "one of the last tenth, mean, ms", "kernel, KiB a link", "each ktsnd, KiB a link",
			"both ktsnd at rest, cores", "unplugging all, s"}}
	for _, number := range e.Numbers {
		name := manyName(number)
		value := func(name string) func(string, float64, int) string {
			return func(value string, unit float64, digits int) string {
				return spreadOf(valuesOf(seen(measured, testbed.Link, name, value))).text(unit, digits)
			}
		}(name)
		table.Rows = append(table.Rows, []string{strconv.Itoa(number), value(valuePlugAll, 1e9, 2),
			percentiles(measured, testbed.Link, name, samplePlug, 5000).text(millisecond, 1), value(valueLastPlug, millisecond, 1),
			value(valueMemory, kibibyte, 0), value(valueDaemon, kibibyte, 1), restOf(measured, name).text(1, 4), value(valueUnplug, 1e9, 2)})
	}
	return results.Section{ID: "many", Title: "Many links",
		About: fmt.Sprintf("Links between one pod on each node, plugged at both ends one after the other, as the agents do. The kernel’s memory is Slab and "+
			"Percpu of /proc/meminfo, of both nodes together; other programs of the machine change it, too. At rest nothing is sent for %v.", e.Rest),
		Tables: []results.SectionTable{table}}
}
