// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

var threePaths = []string{"direct", "kernel-vxlan", "host"}

// address is anything that a browser might fetch.
var address = regexp.MustCompile(`(?i)(\b(src|href|action|poster|data|srcset)\s*=\s*"([^"]*)"|@import|url\(([^)]*)\)|\w+://[^\s"<]*|<(script|iframe|object|embed|base|img|image|use)\b)`)

func TestPageFetchesNothing(t *testing.T) {
	measurement := generated(500, threePaths, []int{64, 256, 1024}, true)
	for _, match := range address.FindAllString(rendered(t, measurement), -1) {
		if match != `href="data:,"` { // instead of favicon.ico
			t.Errorf("the page contains %s", match)
		}
	}
}

func TestPageSizeAndTime(t *testing.T) {
	measurement := generated(6667, threePaths, []int{64, 256, 1024}, true)
	begin := time.Now()
	page := rendered(t, measurement)
	if took := time.Since(begin); took > 10*time.Second { // a tenth of a second; machines may be busy
		t.Errorf("80,000 messages took %v", took)
	}
	if len(page) > 1<<20 {
		t.Errorf("the page has %d bytes", len(page))
	}
}

func TestPageContents(t *testing.T) {
	for name, test := range map[string]struct {
		measurement *Measurement
		has, hasNot []string
	}{
		"everything": {generated(500, threePaths, []int{64, 256, 1024}, true),
			[]string{`id="latency-figure"`, `id="jitter-figure"`, `id="cdf-figure"`, "Distribution of latency at 256 B",
				`id="keep-awake-figure"`, "valid measurement", "A &lt;Processor&gt; &amp; more", "times as long", "not reached",
				"0.0012 cores over 2 s"}, []string{"NaN", "%!", "ZgotmplZ", "Inf"}},
		"one path": {generated(500, []string{"direct"}, []int{64, 256}, false),
			[]string{`id="cdf-figure"`, "path direct"}, []string{"keep-awake", `data-path="host"`, "times as long"}},
		"no direct path": {generated(500, []string{"host"}, []int{64}, false),
			[]string{`id="latency-figure"`}, []string{"path direct</p>", "NaN"}},
		"a short run": {generated(200, threePaths, []int{64}, false),
			[]string{"Distribution of latency at 64 B"}, []string{"Apart", "NaN"}},
		"two messages": {generated(2, threePaths, []int{64}, false), []string{`id="cdf-figure"`}, []string{"NaN"}},
		"one message":  {generated(1, threePaths, []int{64}, false), []string{`id="cdf-figure"`}, []string{"NaN", `id="jitter-figure"`}},
		"paths of a cluster": {generated(50, []string{"tsn", "flannel", "flannel-host-gw", "ovs", "of-tomorrow"}, []int{64, 256, 1024}, false),
			[]string{`data-path="of-tomorrow"`}, []string{"NaN"}},
		"nothing": {&Measurement{Summary: &results.Summary{}}, []string{"The machine"},
			[]string{"<figure", "Targets", "NaN", "Ratios", "Assertions", "could not be measured"}},
		"a bench": {benched(), []string{`id="ratios"`, "<td>plain direct</td><td>plain kernel-vxlan</td>", "no difference shown", "✗ does not hold", "path ovs", "seed 7",
			"3 of 9 runs", "The horizontal line is the budget of 400 µs", "means over the budget", "every 250 ms", "one clock",
			"What the profile is about"}, []string{"NaN", "messages.csv"}},
	} {
		t.Run(name, func(t *testing.T) {
			page := rendered(t, test.measurement)
			for _, want := range test.has {
				if !strings.Contains(page, want) {
					t.Errorf("there is no %s", want)
				}
			}
			for _, unwanted := range test.hasNot {
				if strings.Contains(page, unwanted) {
					t.Errorf("there is %s", unwanted)
				}
			}
		})
	}
}

// benched is a measurement as a bench makes it.
func benched() *Measurement {
	measurement := generated(300, threePaths, []int{64, 256}, false)
	summary := measurement.Summary
	summary.Profile = &results.ProfileSummary{Name: "mine", About: "What the profile is about.", Runs: 9, Done: 3, Seed: 7, BudgetNs: 400_000,
		Samplers: "on", Programs: map[string]string{"ktsnd": "0123"}}
	summary.Clock = &results.Clock{About: "All have one clock."}
	summary.Ratios = []results.Ratio{{Figure: "latency_ns.p50", Path: "direct", Workload: "plain", AgainstPath: "kernel-vxlan",
		AgainstLoad: "plain", PayloadBytes: 64, CycleNs: 1_000_000, Value: 0.9, Low: 0.5, High: 1.1, Confidence: 0.95}}
	summary.Assertions = []results.Assertion{{Expression: "direct.lost == 0", Detail: "64 B: does not hold"}}
	summary.NotMeasured = []results.Gap{{What: "path ovs", Why: "there is none"}}
	return measurement
}

func TestPageShowsOpenVSwitch(t *testing.T) {
	measurement := generated(50, []string{"direct", "ovs"}, []int{64}, false)
	share := 0.4321
	for _, run := range measurement.Summary.Runs {
		if run.Path == results.PathOVS {
			run.SwitchShare, run.CPUCores = &share, map[string]float64{"ktsnd": 0.1, "ovs-vswitchd": 0.987}
		}
	}
	page := rendered(t, measurement)
	for _, want := range []string{"its share", "43.21 %", "0.987"} {
		if !strings.Contains(page, want) {
			t.Errorf("there is no %s", want)
		}
	}
	if page := rendered(t, generated(50, []string{"direct"}, []int{64}, false)); strings.Contains(page, ">its share<") {
		t.Error("it speaks of Open vSwitch where there was none")
	}
}

// The strongest of the kernel's paths is beside ours, with what both take of processors.
func TestPageComparesWithSpinningTalker(t *testing.T) {
	for _, paths := range [][]string{{"direct", "kernel-vxlan-spin", "kernel-vxlan"}, {"tsn", "primary-spin", "primary"}} {
		t.Run(paths[0], func(t *testing.T) { comparesWithTheTalkerThatSpins(t, paths) })
	}
}

func comparesWithTheTalkerThatSpins(t *testing.T, paths []string) {
	t.Helper()
	measurement := generated(50, paths, []int{64}, false)
	measurement.Summary.Setup.SpinNs, measurement.Summary.Setup.FIFOPriority = 120_000, 50
	for i, cores := range []float64{0.1357, 0.2468, 0.0369} {
		measurement.Summary.Runs[i].SendingCores = &cores
	}
	page := rendered(t, measurement)
	for _, want := range []string{paths[1] + " takes", "processor time of the sending side, 64 B, path " + paths[0], "talker and ktsnd; " + paths[1] + " takes 0.247",
		"SCHED_FIFO priority 50, awake 120 µs before each send"} {
		if !strings.Contains(page, want) {
			t.Errorf("there is no %s", want)
		}
	}
	latency := regexp.MustCompile(`(?s)<table id="latency".*?</table>`).FindString(page)
	for _, want := range []string{"sending side, cores", "0.136", "0.247", "0.037"} {
		if !strings.Contains(latency, want) {
			t.Errorf("there is no %s beside the latencies", want)
		}
	}
	text := tabled(t, measurement.Summary)
	for _, want := range []string{"- talkers that spin: SCHED_FIFO priority 50, awake 120 µs before each send\n", " | 0.247 |\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

func TestPageOfSeveralMeasurements(t *testing.T) {
	first, other := benched(), benched()
	first.Name, other.Name = "first", "second"
	var out bytes.Buffer
	if err := writePage(&out, first, other); err != nil {
		t.Fatal(err)
	}
	ids := regexp.MustCompile(`id="([^"]*)"`)
	seen := map[string]bool{}
	for _, match := range ids.FindAllStringSubmatch(out.String(), -1) {
		if seen[match[1]] {
			t.Errorf("two elements are called %s", match[1])
		}
		seen[match[1]] = true
	}
	if !seen["cdf-figure"] || !seen["m2-cdf-figure"] || !seen["m2-ratios"] || !strings.Contains(out.String(), "second: t") {
		t.Errorf("the elements are %v", seen)
	}
}

func TestPageSeparatesCycles(t *testing.T) {
	measurement := generated(100, threePaths, []int{64}, false)
	for i := range measurement.Summary.Runs[:3] {
		slow, series := *measurement.Summary.Runs[i], measurement.Series[i]
		slow.CycleNs, series.CycleNs = 2_000_000, 2_000_000
		measurement.Summary.Runs = append(measurement.Summary.Runs, &slow)
		measurement.Series = append(measurement.Series, series)
	}
	page := rendered(t, measurement)
	for _, want := range []string{`id="workload-plain-2000us"`, "Apart: plain, 2,000 µs", `id="plain-2000us-cdf-figure"`, `id="cdf-figure"`} {
		if !strings.Contains(page, want) {
			t.Errorf("there is no %s", want)
		}
	}
}

func TestWriteFolder(t *testing.T) {
	for _, format := range Formats {
		dir := t.TempDir()
		if err := WriteFolder(dir, format, benched()); err != nil {
			t.Fatal(err)
		}
		for name, opening := range map[string]string{"report.html": "<!DOCTYPE html>", "summary.json": "{", TablesName: "# Profile `mine`\n", "figures.csv": "path,workload,",
			"ratios.csv": "figure,path,", "plots/cdf.csv": "path,latency_ns,", "plots/means.csv": "path,from_ns", "plots/latency-histogram.csv": "path,from_ns",
			"plots/latency-figure-1." + format: map[string]string{"svg": "<?xml", "png": "\x89PNG"}[format]} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || !strings.HasPrefix(string(text), opening) {
				t.Errorf("%s begins with %.20q, %v", name, text, err)
			}
		}
	}
}

func TestNewHistogram(t *testing.T) {
	sorted := []int64{-5, 0, 1, 59, 60, 61, 119, 120, 5000}
	h := newHistogram(sorted, 0, 120)
	total := h.below + h.beyond
	for _, count := range h.counts {
		total += count
	}
	if h.width != 2 || h.below != 1 || h.beyond != 2 || h.counts[0] != 2 || h.counts[30] != 2 || total != len(sorted) {
		t.Errorf("got %+v", h)
	}
}

func TestMeans(t *testing.T) {
	series := &results.Series{LatencyNs: []int64{10, 20, 90, 40}, MeasuredNs: []int64{0, 999, 1000, 3500}}
	got := newMeans(series, 1000)
	if len(got) != 4 || got[0] != 15 || got[1] != 90 || !math.IsNaN(got[2]) || got[3] != 40 {
		t.Errorf("got %v", got)
	}
	for measured, want := range map[time.Duration]time.Duration{200 * time.Second: 10 * time.Second, 60 * time.Second: 5 * time.Second,
		3 * time.Second: 200 * time.Millisecond, time.Millisecond: 100 * time.Millisecond} {
		runs := []sampled{{series: &results.Series{MeasuredNs: []int64{int64(measured)}}}}
		if got := intervalFor(runs, 0); got != want {
			t.Errorf("%v are divided into %v, want %v", measured, got, want)
		}
	}
}

func TestPageShowsFramesOutsideWindow(t *testing.T) {
	measurement := generated(100, threePaths, []int{64}, false)
	addGates(measurement, results.WorkloadGatesSaturated)
	page := rendered(t, measurement)
	for _, want := range []string{`id="workload-gates-saturated"`, `id="gates-saturated-gates"`,
		`<tr class="opens"><th scope="row">class 7</th>`, `<td class="bad" data-exact="2">2</td><td data-exact="7">7</td>`,
		"600 to 1,000", "12,345", "the link has 1,000 Mbit/s", "so that the window of its class is always full"} {
		if !strings.Contains(page, want) {
			t.Errorf("there is no %s", want)
		}
	}
	if other := rendered(t, generated(100, threePaths, []int{64}, true)); strings.Contains(other, "wire, by class") {
		t.Error("runs without a schedule have a table of gates")
	}
}

func TestPageOfRunWithoutSamples(t *testing.T) {
	measurement := generated(100, threePaths, []int{64, 256}, false)
	measurement.Series = append(measurement.Series[:1], measurement.Series[2:]...) // kernel-vxlan, 64 B
	lost := measurement.Summary.Runs[1]
	lost.Lost, lost.Received, lost.Distributions = 100, 0, results.Distributions{}
	page := rendered(t, measurement)
	row := regexp.MustCompile(`<tr data-path="kernel-vxlan" data-payload="64">.*`).FindString(page)
	if !strings.Contains(row, unmeasured) {
		t.Errorf("its row is %s", row)
	}
	if !strings.Contains(page, `class="tile bad"`) || !strings.Contains(page, "100 lost, 0 early: kernel-vxlan 64 B") {
		t.Error("the loss is not shown")
	}
}

func TestPageWithNegativeLatency(t *testing.T) {
	measurement := generated(100, threePaths, []int{64}, false)
	measurement.Series[0].LatencyNs[0] = -40_000
	if page := rendered(t, measurement); !strings.Contains(page, `data-exact="-40000"`) || strings.Contains(page, "NaN") {
		t.Error("a message that arrived before its time breaks the page")
	}
}

func TestProblemsAndWarningsAreFirst(t *testing.T) {
	measurement := generated(10, threePaths, []int{64}, false)
	measurement.Summary.Problems = []string{"something <was> lost", "and more"}
	measurement.Summary.Warnings = []string{"no real-time scheduling"}
	page := rendered(t, measurement)
	for _, want := range []string{"something &lt;was&gt; lost", "2 problems", "1 warning<", "no real-time scheduling"} {
		if at := strings.Index(page, want); at < 0 || at > strings.Index(page, "What is compared") {
			t.Errorf("%q is not at the top", want)
		}
	}
}

func TestPageIsReproducible(t *testing.T) {
	first := rendered(t, generated(300, threePaths, []int{64, 256}, true))
	if two := rendered(t, generated(300, threePaths, []int{64, 256}, true)); first != two {
		t.Error("two pages differ")
	}
}

func TestSamplesAreNotModified(t *testing.T) {
	measurement := generated(300, threePaths, []int{64}, false)
	before := append([]int64(nil), measurement.Series[0].LatencyNs...)
	rendered(t, measurement)
	for i, ns := range measurement.Series[0].LatencyNs {
		if ns != before[i] {
			t.Fatal("the samples were sorted in place")
		}
	}
}

// full is a place where nothing more can be written.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestErrors(t *testing.T) {
	if err := writePage(io.Discard, &Measurement{}); err == nil {
		t.Error("a report of nothing")
	}
	if err := writePage(full{}, generated(10, threePaths, []int{64}, false)); err == nil {
		t.Error("nobody noticed that nothing could be written")
	}
	if err := writePage(&bytes.Buffer{}, generated(10, threePaths, []int{64}, false)); err != nil {
		t.Error(err)
	}
}

func TestEmptyColumnsAreLeftOut(t *testing.T) {
	known := results.Distributions{SendCall: &stats.Summary{P50: 1}, CPUCores: map[string]float64{"talker": 0.5}}
	runs := []sampled{{run: &results.Run{Path: "tsn", Counts: results.Counts{Late: new(uint64)}, Distributions: known}},
		{run: &results.Run{Path: "host", Distributions: known}}}
	got := causesTable("causes", runs)
	if want := []string{"send call p50", "p99", "lost", "early", "late", "talker"}; !slices.Equal(got.Head, want) {
		t.Errorf("the columns are %q, and not %q", got.Head, want)
	}
	if cells := got.Rows[1].Cells; len(cells) != 6 || cells[4].Text != "–" || cells[5].Text != "0.500" {
		t.Errorf("the second row is %+v", cells)
	}
}

func TestAdjacentDrawingsHaveHalfWidth(t *testing.T) {
	page := rendered(t, generated(500, threePaths, []int{64, 256}, true))
	if !strings.Contains(page, ".drawings:not(.n1) {") {
		t.Error("three histograms, which are drawn for half the width, have all of it")
	}
}
