// SPDX-License-Identifier: Apache-2.0

package report

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// experimental is a measurement that an experiment made: lines, bars and steps.
func experimental() *Measurement {
	curve := results.Line{Name: "ktsnd", Points: []results.Point{{X: 1, Y: 0.1, Low: 0.05, High: 0.2}, {X: 10, Y: 0.2}, {X: 1000, Y: 1.5}}}
	bars := results.Line{Name: "direct", Points: []results.Point{{X: 0, Y: 900, Low: 800, High: 1000}, {X: 1, Y: 400}}}
	section := results.Section{ID: "cost", Title: "What it costs", About: "Cost <by> flows.",
		Charts: []results.Chart{
			{ID: "cores", Title: "Cores by flows", XAxis: "flows", YAxis: "cores", LogX: true, LogY: true, Lines: []results.Line{curve, {Name: "agent", Points: curve.Points[:2]}}},
			{ID: "bars", Title: "Throughput", YAxis: "Mbit/s", Bars: true, Labels: []string{"tcp", "udp"}, Lines: []results.Line{bars, {Name: "host", Points: bars.Points}}},
			{ID: "steps", Title: "Histogram", XAxis: "µs", YAxis: "share", Steps: true, Lines: []results.Line{{Name: "case 1", Points: []results.Point{{X: 1250, Y: 0.5}, {X: 1251, Y: 0.5}, {X: 1252, Y: 0}}}}},
			{ID: "empty", Title: "Nothing yet", YAxis: "share", Lines: []results.Line{{Name: "none"}}},
		},
		Tables: []results.SectionTable{{ID: "table", Title: "All of it", Head: []string{"flows", "cores"}, Rows: [][]string{{"1", "0.1"}}}}}
	return &Measurement{Summary: &results.Summary{Sections: []results.Section{section},
		Profile: &results.ProfileSummary{Name: "scale", Experiment: "scale", Target: "namespaces", Runs: 1, Done: 1}}}
}

func TestPageWithSections(t *testing.T) {
	page := rendered(t, experimental())
	for _, want := range []string{"<h1>profile scale</h1>", `id="section-cost"`, "Cost &lt;by&gt; flows.", `id="cost-cores"`,
		`id="cost-table"`, `<th scope="row">1</th><td>0.1</td>`, "the experiment looks itself"} {
		if !strings.Contains(page, want) {
			t.Errorf("there is no %s", want)
		}
	}
	for _, unwanted := range []string{"NaN", "What is compared", "What the figures mean", "messages lost", "Traffic"} {
		if strings.Contains(page, unwanted) {
			t.Errorf("there is %s", unwanted)
		}
	}
	for _, match := range address.FindAllString(page, -1) {
		if match != `href="data:,"` {
			t.Errorf("the page contains %s", match)
		}
	}
}

func TestFiguresCSVOfExperiment(t *testing.T) {
	measurement, result := experimental(), &results.Case{Path: "host", Name: "tcp-1500"}
	result.Add("received_bps", 1, 9e9)
	result.Add("received_bps", 3, 10e9)
	result.Add("retransmits", 1, 2)
	measurement.Summary.Cases = []*results.Case{result}
	dir := t.TempDir()
	if err := WriteFolder(dir, "svg", measurement); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "figures.csv"))
	want := `path,workload,payload_bytes,cycle_ns,alternation,figure,value
host,tcp-1500,,,0,received_bps,9.5e+09
host,tcp-1500,,,0,received_bps.standard_error,5e+08
host,tcp-1500,,,1,received_bps,9e+09
host,tcp-1500,,,3,received_bps,1e+10
host,tcp-1500,,,0,retransmits,2
host,tcp-1500,,,1,retransmits,2
`
	if err != nil || string(text) != want {
		t.Errorf("%v:\n%s\nwant\n%s", err, text, want)
	}
}

func TestDrawingFilesOfExperiment(t *testing.T) {
	for _, format := range Formats {
		dir := t.TempDir()
		if err := WriteFolder(dir, format, experimental()); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"cost-cores-1." + format, "cost-bars-1." + format, "cost-steps-1." + format} {
			if info, err := os.Stat(filepath.Join(dir, "plots", name)); err != nil || info.Size() < 1000 {
				t.Errorf("%s: %v", name, err)
			}
		}
		text, err := os.ReadFile(filepath.Join(dir, "plots", "cost-bars.csv"))
		if err != nil || !strings.Contains(string(text), "direct,tcp,900,800,1000\n") {
			t.Errorf("%s, %v", text, err)
		}
	}
}

func TestReportOnFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=8k"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	err := WriteFolder(dir, "svg", experimental())
	if err == nil || !strings.Contains(err.Error(), "no space is left in "+dir+" for the report; what was measured is kept: free some") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}
