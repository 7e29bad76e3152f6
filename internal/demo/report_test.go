// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/kubernetsn/kubernetsn/internal/results"
	"github.com/kubernetsn/kubernetsn/internal/stats"
)

// made is a run whose medians are all derived from one latency.
func made(path string, payloadBytes int, latencyNs int64) *results.Run {
	latency := &stats.Summary{P50: latencyNs, P99: 2 * latencyNs}
	r := &results.Run{Path: path, Workload: results.WorkloadPlain, PayloadBytes: payloadBytes,
		MedianOfAlternations: results.Distributions{
			Latency: latency, LaunchError: latency, SendCall: latency,
			Jitter: &stats.Jitter{AbsP50: latencyNs}}}
	if path == PathDirect {
		late := uint64(1)
		r.Late = &late
		r.MedianOfAlternations.DepartureError = &stats.Summary{P50: latencyNs / 100}
		r.MedianOfAlternations.CPUCores = map[string]float64{"ktsnd": 0.08}
	}
	return r
}

func TestFiguresAreJudgedByTheirWorstPayload(t *testing.T) {
	runs := []*results.Run{
		made(PathDirect, 64, 4000), made(PathKernelVXLAN, 64, 16000),
		made(PathDirect, 1024, 9000), made(PathKernelVXLAN, 1024, 18000),
	}
	idle := &results.Idle{CPUCores: map[string]float64{"ktsnd": 0.001}}
	want := map[string]bool{
		"latency p50, direct / kernel-vxlan":   false, // 0.25 and 0.5
		"latency p99, direct / kernel-vxlan":   true,
		"lost":                                 true,
		"early on the wire":                    true,
		"departure error p50":                  true,
		"launch error p50 on the wire":         false,
		"jitter abs_p50":                       false,
		"send call p50, direct / kernel-vxlan": true, // 0.25 and exactly 0.5
		"processor time of ktsnd, one flow":    true,
		"processor time of ktsnd, idle":        true,
	}
	got := figures(runs, idle)
	if len(got) != len(want) {
		t.Errorf("%d figures, want %d", len(got), len(want))
	}
	for _, figure := range got {
		if reached, known := want[figure.Name]; !known || reached != figure.Reached {
			t.Errorf("%+v is judged wrongly", figure)
		}
	}
	if ratio := got[0].Values["1024"]; ratio != 0.5 {
		t.Errorf("the ratio at 1024 B is %v", ratio)
	}
}

// madeGates is a run with gates in which of 10,000 frames so many were outside.
func madeGates(workload string, latencyNs int64, outside int) *results.Run {
	r := made(PathDirect, gatesPayload, latencyNs)
	r.Workload, r.Sent = workload, 10_000
	r.Gates = []results.GateFrames{{TrafficClass: 7, CloseNs: 300_000, Sent: 10_000, Frames: 10_000, OutsideWindow: outside,
		TransmissionOverrun: 5}}
	return r
}

// saturated is a run with so many frames of the saturating class.
func saturated(frames, cycles int) *results.Run {
	r := madeGates(WorkloadGatesSaturated, 5000, 0)
	r.Gates = append(r.Gates, results.GateFrames{TrafficClass: floodClass, OpenNs: 600_000, CloseNs: 1_000_000,
		Sent: frames, Frames: frames, Cycles: cycles})
	return r
}

func TestFiguresOfGatesCompareWithAndWithoutSaturation(t *testing.T) {
	for name, test := range map[string]struct {
		runs  []*results.Run
		setup *results.GateSetup
		want  map[string]bool
	}{
		"as it should be": {
			[]*results.Run{madeGates(WorkloadGates, 5000, 0), madeGates(WorkloadGatesSaturated, 5500, 1)}, nil,
			map[string]bool{"latency p50, gates-saturated / gates": true, "latency p99, gates-saturated / gates": true,
				"frames outside their window, gates": true, "frames outside their window, gates-saturated": true}},
		"slower, and two frames of 10,000 outside": {
			[]*results.Run{madeGates(WorkloadGates, 5000, 0), madeGates(WorkloadGatesSaturated, 6500, 2)}, nil,
			map[string]bool{"latency p50, gates-saturated / gates": false, "latency p99, gates-saturated / gates": true,
				"frames outside their window, gates": true, "frames outside their window, gates-saturated": false}},
		"nothing to compare with": {
			[]*results.Run{madeGates(WorkloadGatesSaturated, 6500, 0), made(PathDirect, gatesPayload, 1)}, nil,
			map[string]bool{"frames outside their window, gates-saturated": true}},
		"a window of which a third is empty": {
			[]*results.Run{saturated(1000*19, 1000)}, &results.GateSetup{LinkSpeedBps: 1e9, GuardBandNs: 20_000},
			map[string]bool{"frames outside their window, gates-saturated": true, "empty part of the saturated window": false}},
		"a window that is full": {
			[]*results.Run{saturated(1000*31, 1000)}, &results.GateSetup{LinkSpeedBps: 1e9, GuardBandNs: 20_000},
			map[string]bool{"frames outside their window, gates-saturated": true, "empty part of the saturated window": true}},
		"a window in which nothing was": {
			[]*results.Run{madeGates(WorkloadGatesSaturated, 6500, 0)}, &results.GateSetup{LinkSpeedBps: 1e9},
			map[string]bool{"frames outside their window, gates-saturated": true, "empty part of the saturated window": false}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]bool{}
			for _, figure := range gateFigures(test.runs, test.setup) {
				got[figure.Name] = figure.Reached
			}
			if !maps.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestFiguresThatWereNotMeasuredAreLeftOut(t *testing.T) {
	if got := figures([]*results.Run{made(PathKernelVXLAN, 64, 1), made(PathHost, 64, 1)}, nil); len(got) != 0 {
		t.Errorf("without path direct there are %+v", got)
	}
	for _, figure := range figures([]*results.Run{made(PathDirect, 64, 1)}, nil) {
		if figure.Unit == results.UnitRatio {
			t.Errorf("without path kernel-vxlan there is %+v", figure)
		}
	}
}

func TestReportHasEveryRunAndVerdict(t *testing.T) {
	runs := []*results.Run{made(PathDirect, 64, 4000), made(PathKernelVXLAN, 64, 16000), made(PathHost, 64, 12345)}
	runs = append(runs, &results.Run{Path: PathDirect, Workload: WorkloadKeepAwake, PayloadBytes: 64})
	runs = append(runs, madeGates(WorkloadGates, 5000, 0), madeGates(WorkloadGatesSaturated, 7000, 3))
	summary := &results.Summary{Runs: runs, Problems: []string{"something was lost"},
		Warnings: []string{"no real-time scheduling"},
		Idle:     &results.Idle{DurationNs: 2e9, CPUCores: map[string]float64{"ktsnd": 0.0012}},
		Setup:    results.Setup{Messages: 5000, Alternations: 5, SenderCPU: 2, ListenerCPU: 3}}
	summary.Figures = append(figures(runs, summary.Idle), gateFigures(runs, nil)...)
	var out strings.Builder
	if err := printReport(&out, summary, pinning{2, 3}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"64 B  direct", "64 B  kernel-vxlan", "64 B  host", "0.25", "12.3", "keeping its core awake",
		"Talker and ktsnd on CPU 2, polling listener on CPU 3", "0.0012 cores", "PROBLEM: something was lost", "WARNING: ktsnd says: no real-time scheduling",
		"launch error p50 on the wire", "0.0050", "reached",
		"gates-saturated  class 7", "0 to 300", "0.0300 %", "frames outside their window, gates-saturated", "1.40",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestOneProcessorIsAWarning(t *testing.T) {
	var out strings.Builder
	if err := printReport(&out, &results.Summary{}, pinning{notPinned, notPinned}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "WARNING: one processor only") {
		t.Errorf("it says\n%s", out.String())
	}
}

// full is a place where nothing more can be written.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestReportThatCannotBeWrittenIsAnError(t *testing.T) {
	if err := printReport(full{}, &results.Summary{}, pinning{}); err == nil {
		t.Error("nobody noticed")
	}
}

func TestRecorderPoolsAlternations(t *testing.T) {
	var csv bytes.Buffer
	recorder := newRecorder(testCycle, &csv)
	for alternation := 1; alternation <= 2; alternation++ {
		outcome, err := join(perfect(t))
		if err != nil {
			t.Fatal(err)
		}
		outcome.problems = []string{"odd"}
		if err := recorder.add(run{PathDirect, results.WorkloadPlain, 64, 3, alternation}, outcome); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := recorder.finish()
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 1 || runs[0].Sent != 6 || len(runs[0].Alternations) != 2 || runs[0].Latency.P50 != 90 ||
		runs[0].MedianOfAlternations.Latency.P50 != 90 || runs[0].CPUCores["ktsnd"] != 0.07 {
		t.Errorf("got %+v", runs[0])
	}
	if lines := strings.Count(csv.String(), "\n"); lines != 7 {
		t.Errorf("%d lines of CSV, want a header and 6", lines)
	}
	if len(recorder.problems) != 2 || recorder.problems[1] != "direct, 64 B, plain, alternation 2: odd" {
		t.Errorf("problems are %q", recorder.problems)
	}
}

func TestProgressTellsTheTimeLeft(t *testing.T) {
	now := time.Unix(0, 0)
	var out strings.Builder
	config := validConfig()
	config.Progress, config.Now = &out, func() time.Time { return now }
	blocks := plan(&config)
	progress := newProgress(&config, blocks)
	for _, block := range blocks {
		for _, run := range block.runs {
			progress.starts(run)
			now = now.Add(2 * run.duration(config.Cycle)) // twice as slow as estimated
			if err := progress.ended(run, []int64{5000}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if lines := strings.Count(out.String(), "\n"); lines != 2*(1+5)+(1+10) {
		t.Errorf("%d lines, want one a warm-up and alternation:\n%s", lines, out.String())
	}
	if !strings.Contains(out.String(), "direct 5.00") {
		t.Errorf("no latency so far:\n%s", out.String())
	}
	if left := progress.left(); left > 5*time.Second {
		t.Errorf("%v left at the end", left)
	}
}

func TestProgressOnATerminalStaysOnOneLine(t *testing.T) {
	var out strings.Builder
	config := validConfig()
	config.Progress, config.ProgressColumns = &out, 30
	blocks := plan(&config)
	progress := newProgress(&config, blocks)
	for _, run := range blocks[0].runs {
		progress.starts(run)
		if err := progress.ended(run, []int64{5000}); err != nil {
			t.Fatal(err)
		}
	}
	progress.clear()
	for line := range strings.SplitSeq(out.String(), "\r\x1b[K") {
		if utf8.RuneCountInString(line) > 29 || strings.Contains(line, "\n") {
			t.Errorf("%q does not fit into 30 columns", line)
		}
	}
	if !strings.HasSuffix(out.String(), "\r\x1b[K") {
		t.Error("the line stays at the end")
	}
}
