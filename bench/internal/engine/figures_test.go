// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

func TestWorstPayloadDecides(t *testing.T) {
	runs := []*results.Run{
		sampleRun(results.PathDirect, 64, 4000), sampleRun(results.PathKernelVXLAN, 64, 16000),
		sampleRun(results.PathDirect, 1024, 9000), sampleRun(results.PathKernelVXLAN, 1024, 18000),
		sampleRun(results.PathKernelVXLANSpin, 64, 8000), sampleRun(results.PathKernelVXLANSpin, 1024, 11250),
	}
	idle := &results.Idle{CPUCores: map[string]float64{"ktsnd": 0.001}}
	want := map[string]bool{
		"latency p50, direct / kernel-vxlan-spin":   true, // 0.5 and exactly 0.8
		"latency p99, direct / kernel-vxlan-spin":   true,
		"latency p50, direct / kernel-vxlan":        false, // 0.25 and 0.5
		"latency p99, direct / kernel-vxlan":        true,
		"lost":                                      true,
		"early on the wire":                         true,
		"departure error p50":                       true,
		"launch error p50 on the wire":              false,
		"launch error p99 on the wire":              false,
		"jitter abs_p50":                            false,
		"send call p50, direct / kernel-vxlan-spin": false,
		"processor time of ktsnd, one flow":         true,
		"processor time of ktsnd, idle":             true,
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
	if ratio := got[0].Values["1024"]; ratio != 0.8 {
		t.Errorf("the ratio at 1024 B is %v", ratio)
	}
}

// madeGates is a run with gates in which of 10,000 frames so many were outside.
func madeGates(workload string, latencyNs int64, outside int) *results.Run {
	r := sampleRun(results.PathDirect, GatesPayload, latencyNs)
	r.Workload, r.Sent = workload, 10_000
	r.Gates = []results.GateFrames{{TrafficClass: 7, CloseNs: 300_000, Sent: 10_000, Frames: 10_000, OutsideWindow: outside,
		TransmissionOverrun: 5}}
	return r
}

// saturated is a run with so many frames of the saturating class.
func saturated(frames, cycles int) *results.Run {
	r := madeGates(results.WorkloadGatesSaturated, 5000, 0)
	r.Gates = append(r.Gates, results.GateFrames{TrafficClass: FloodClass, OpenNs: 600_000, CloseNs: 1_000_000,
		Sent: frames, Frames: frames, Cycles: cycles})
	return r
}

func TestGateFigures(t *testing.T) {
	for name, test := range map[string]struct {
		runs  []*results.Run
		setup *results.GateSetup
		want  map[string]bool
	}{
		"as it should be": {
			[]*results.Run{madeGates(results.WorkloadGates, 5000, 0), madeGates(results.WorkloadGatesSaturated, 5500, 1)}, nil,
			map[string]bool{"latency p50, gates-saturated / gates": true, "latency p99, gates-saturated / gates": true,
				"frames outside their window, gates": true, "frames outside their window, gates-saturated": true}},
		"slower, and two frames of 10,000 outside": {
			[]*results.Run{madeGates(results.WorkloadGates, 5000, 0), madeGates(results.WorkloadGatesSaturated, 6500, 2)}, nil,
			map[string]bool{"latency p50, gates-saturated / gates": false, "latency p99, gates-saturated / gates": true,
				"frames outside their window, gates": true, "frames outside their window, gates-saturated": false}},
		"nothing to compare with": {
			[]*results.Run{madeGates(results.WorkloadGatesSaturated, 6500, 0), sampleRun(results.PathDirect, GatesPayload, 1)}, nil,
			map[string]bool{"frames outside their window, gates-saturated": true}},
		"a window of which a third is empty": {
			[]*results.Run{saturated(1000*19, 1000)}, &results.GateSetup{LinkSpeedBps: 1e9, GuardBandNs: 20_000},
			map[string]bool{"frames outside their window, gates-saturated": true, "empty part of the saturated window": false}},
		"a window that is full": {
			[]*results.Run{saturated(1000*31, 1000)}, &results.GateSetup{LinkSpeedBps: 1e9, GuardBandNs: 20_000},
			map[string]bool{"frames outside their window, gates-saturated": true, "empty part of the saturated window": true}},
		"a window in which nothing was": {
			[]*results.Run{madeGates(results.WorkloadGatesSaturated, 6500, 0)}, &results.GateSetup{LinkSpeedBps: 1e9},
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

func TestUnmeasuredFiguresAreLeftOut(t *testing.T) {
	if got := figures([]*results.Run{sampleRun(results.PathKernelVXLAN, 64, 1), sampleRun(results.PathHost, 64, 1)}, nil); len(got) != 0 {
		t.Errorf("without path direct there are %+v", got)
	}
	for _, figure := range figures([]*results.Run{sampleRun(results.PathDirect, 64, 1)}, nil) {
		if figure.Unit == results.UnitRatio {
			t.Errorf("without path kernel-vxlan there is %+v", figure)
		}
	}
	unwatched := sampleRun(results.PathDirect, 64, 1)
	unwatched.MedianOfAlternations.LaunchError = nil
	for _, figure := range figures([]*results.Run{unwatched}, nil) {
		if strings.Contains(figure.Name, "on the wire") {
			t.Errorf("nobody watched the wire, and there is %+v", figure)
		}
	}
}

// sampleRun returns a run whose medians are all derived from one latency.
func sampleRun(path string, payloadBytes int, latencyNs int64) *results.Run {
	latency := &stats.Summary{P50: latencyNs, P99: 2 * latencyNs}
	r := &results.Run{Path: path, Workload: results.WorkloadPlain, PayloadBytes: payloadBytes,
		MedianOfAlternations: results.Distributions{
			Latency: latency, ClockError: results.OneClock(), LaunchError: latency, SendCall: latency,
			Jitter: &stats.Jitter{AbsP50: latencyNs}}}
	cores := 0.25
	r.MedianOfAlternations.SendingCores = &cores
	if path == results.PathDirect {
		late := uint64(1)
		r.Late = &late
		r.MedianOfAlternations.DepartureError = &stats.Summary{P50: latencyNs / 100}
		r.MedianOfAlternations.CPUCores = map[string]float64{"talker": 0.17, "ktsnd": 0.08}
	}
	return r
}
