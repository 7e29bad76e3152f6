// SPDX-License-Identifier: Apache-2.0

package report

import (
	"regexp"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

var rules = regexp.MustCompile(`-{3,}`)

// tabled returns a measurement as Markdown without the padding of cells.
func tabled(t *testing.T, summary *results.Summary) string {
	t.Helper()
	var out, text strings.Builder
	if err := WriteTables(&out, summary); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(rules.ReplaceAllString(out.String(), "---")) {
		text.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return text.String()
}

func TestWriteTables(t *testing.T) {
	measurement := benched()
	addGates(measurement, results.WorkloadGatesSaturated)
	text := tabled(t, measurement.Summary)
	for _, want := range []string{
		"# Profile `mine`\n\n- Date: ",
		"- Size: 3 of 9 runs, target , seed 7\n- Machine: A <Processor> & more, 2 cores, Linux 6.18.0 x86_64, clock source tsc;",
		"- ktsnd: 0.1.0, SCHED_FIFO priority 50\n",
		"\n## Latency and jitter, µs\n\n| workload | path | B | cycle, µs | p50 |",
		"\n| plain | kernel-vxlan | 256 | 1000 | ",
		"| gates-saturated | direct | 256 | 1000 | 1 | 600 to 1000 | 1500 | 1500 | 0 | 2 | 7 |\n",
		"| latency p50, direct / kernel-vxlan | 0.40 | 256 B: 0.30 | yes |\n",
		"| processor time of ktsnd, idle | 0.0010 | 0.0012 | no |\n",
		"| latency_ns.p50 | plain direct | plain kernel-vxlan | 64 | 1000 | 0.90 | 0.50 | 1.10 | no difference shown |\n",
		"\n## Not measured\n\n- path ovs: there is none\n",
		"\n## Assertions\n\n- `direct.lost == 0` does not hold: 64 B: does not hold\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	measurement.Summary.Profile.Target = clusterTarget
	if text := tabled(t, measurement.Summary); strings.Contains(text, "hypervisor") || strings.Contains(text, "clock source") {
		t.Errorf("of nodes of a cluster it says what nobody looked at:\n%s", text)
	}
	for _, unwanted := range []string{"## Problems", "## Nodes and pods"} {
		if strings.Contains(text, unwanted) {
			t.Errorf("there is an empty part %s", unwanted)
		}
	}
}

func TestRowsHaveOneCellPerColumn(t *testing.T) {
	measurement := benched()
	addGates(measurement, results.WorkloadGatesSaturated)
	run := measurement.Summary.Runs[0] // as one of which nothing arrived
	run.Distributions = results.Distributions{}
	measurement.Summary.Usage = []results.Usage{{Node: "a|b", Cores: 0.5, MemoryBytes: 1 << 20}}
	columns, rows := 0, 0
	for line := range strings.Lines(tabled(t, measurement.Summary)) {
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		cells := strings.Count(line, "|") - strings.Count(line, `\|`) - 1
		if columns == 0 {
			columns = cells
		}
		if rows++; cells != columns {
			t.Errorf("%d cells in a table of %d: %s", cells, columns, line)
		}
	}
	if rows < 20 {
		t.Errorf("%d rows, want more", rows)
	}
}

func TestWriteTablesOfExperiment(t *testing.T) {
	text := tabled(t, experimental().Summary)
	want := "\n## What it costs\n\n### All of it\n\n| flows | cores |\n|---|---|\n| 1 | 0.1 |\n"
	if !strings.HasSuffix(text, want) || strings.Contains(text, "## Latency") {
		t.Errorf("got\n%s", text)
	}
}
