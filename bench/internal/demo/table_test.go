// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"errors"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// madeOVS is a run through an Open vSwitch that takes so much of the latency, and of processors.
func madeOVS(workload string, latencyNs, portNs int64, cores float64) *results.Run {
	r := results.SampleRun(results.PathOVS, 64, latencyNs)
	share := float64(portNs) / float64(latencyNs)
	r.Workload, r.SwitchShare, r.MedianOfAlternations.Port = workload, &share, &stats.Summary{P50: portNs}
	r.MedianOfAlternations.CPUCores = map[string]float64{"talker": 0.02, "ktsnd": 0.08, "ovs-vswitchd": cores}
	return r
}

// madeGates is a run with gates in which of 10,000 frames so many were outside.
func madeGates(workload string, latencyNs int64, outside int) *results.Run {
	r := results.SampleRun(results.PathDirect, 256, latencyNs)
	r.Workload, r.Sent = workload, 10_000
	r.Gates = []results.GateFrames{{TrafficClass: 7, CloseNs: 300_000, Sent: 10_000, Frames: 10_000, OutsideWindow: outside,
		TransmissionOverrun: 5}}
	return r
}

func TestPrintReport(t *testing.T) {
	runs := []*results.Run{results.SampleRun(results.PathDirect, 64, 4000), results.SampleRun(results.PathKernelVXLAN, 64, 16000), results.SampleRun(results.PathHost, 64, 12345),
		results.SampleRun(results.PathKernelVXLANSpin, 64, 5000)}
	runs = append(runs, &results.Run{Path: results.PathDirect, Workload: results.WorkloadKeepAwake, PayloadBytes: 64})
	runs = append(runs, madeOVS(results.WorkloadPlain, 8000, 4800, 1), madeOVS(results.WorkloadPMDSleep, 40_000, 36_000, 0.21))
	runs = append(runs, madeGates(results.WorkloadGates, 5000, 0), madeGates(results.WorkloadGatesSaturated, 7000, 3))
	summary := &results.Summary{Runs: runs, Problems: []string{"something was lost"},
		Warnings: []string{"no real-time scheduling"},
		Idle:     &results.Idle{DurationNs: 2e9, CPUCores: map[string]float64{"ktsnd": 0.0012}},
		Setup:    results.Setup{Messages: 5000, Alternations: 5, SenderCPU: 2, ListenerCPU: 3, SpinNs: 120_000, FIFOPriority: 50}}
	summary.Figures = []results.Figure{{Name: "launch error p50 on the wire", Unit: results.UnitNs, Limit: 5000,
		Values: map[string]float64{"64": 4000}, Reached: true},
		{Name: "processor time of ktsnd, idle", Unit: results.UnitCores, Limit: 0.005, Values: map[string]float64{results.Independent: 0.0012}, Reached: true}}
	var out strings.Builder
	if err := printReport(&out, summary); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"0.80  0.80         0.25  0.25  0.250\n", "Talkers of paths that spin: SCHED_FIFO priority 50, awake 120 µs before each send",
		"64 B  direct", "64 B  kernel-vxlan", "64 B  host", "0.25", "12.3", "keeping its core awake",
		"Talker and ktsnd on CPU 2, polling listener on CPU 3", "0.0012 cores", "PROBLEM: something was lost", "WARNING: ktsnd says: no real-time scheduling",
		"launch error p50 on the wire", "0.0050", "reached",
		"4.80 (60 %)", "0.170 + 0.080", "0.020 + 0.080 + 1.00", "pause its polling for 50µs", "36.0 (90 %)", "0.020 + 0.080 + 0.21",
		"gates-saturated  class 7", "0 to 300", "1.40",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestOneProcessorIsAWarning(t *testing.T) {
	var out strings.Builder
	if err := printReport(&out, &results.Summary{Setup: results.Setup{SenderCPU: -1}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "WARNING: one processor only") {
		t.Errorf("it says\n%s", out.String())
	}
}

// full is a place where nothing more can be written.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestPrintReportFails(t *testing.T) {
	if err := printReport(full{}, &results.Summary{}); err == nil {
		t.Error("nobody noticed")
	}
}
