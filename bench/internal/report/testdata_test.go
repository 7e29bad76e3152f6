// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// generated is a measurement of so many messages on each path with each payload: a bulk and a long tail, the
// same on each call.
func generated(messages int, paths []string, payloads []int, keepAwake bool) *Measurement {
	random := rand.New(rand.NewPCG(1, 2))
	measurement := &Measurement{Summary: &results.Summary{
		Schema: results.Schema,
		Host: results.Host{Date: time.Unix(1_790_000_000, 0).UTC(), Kernel: "6.18.0 x86_64", CPUModel: "A <Processor> & more",
			Cores: 2, ClockSource: "tsc", GoVersion: "go1.26", KtsndVersion: "0.1.0", Scheduler: "SCHED_FIFO",
			SchedulerPriority: 50, SpinNs: 120_000},
		Setup: results.Setup{Messages: messages, Alternations: 5, SenderCPU: 0, ListenerCPU: 1, LeadNs: 300_000},
		Idle:  &results.Idle{DurationNs: 2e9, CPUCores: map[string]float64{"ktsnd": 0.0012}},
		Figures: []results.Figure{
			{Name: "latency p50, direct / kernel-vxlan", Unit: results.UnitRatio, Limit: 0.4,
				Values: map[string]float64{"256": 0.3}, Reached: true},
			{Name: "processor time of ktsnd, idle", Unit: results.UnitCores, Limit: 0.001,
				Values: map[string]float64{results.Independent: 0.0012}},
		},
	}}
	add := func(path, workload string, payload int) {
		series := results.Series{Key: results.Key{Path: path, Workload: workload, PayloadBytes: payload, CycleNs: 1_000_000},
			LatencyNs: latencies(random, messages, float64(len(path)*4)+float64(payload)/100)}
		for i := range series.LatencyNs {
			series.MeasuredNs = append(series.MeasuredNs, int64(i)*1_000_000)
		}
		for i := 1; i < len(series.LatencyNs); i++ {
			series.JitterNs = append(series.JitterNs, series.LatencyNs[i]-series.LatencyNs[i-1])
		}
		measurement.Series = append(measurement.Series, series)
		measurement.Summary.Runs = append(measurement.Summary.Runs, runOf(&series))
	}
	for _, payload := range payloads {
		for _, path := range paths {
			add(path, results.WorkloadPlain, payload)
		}
	}
	for _, path := range paths {
		if keepAwake {
			add(path, "keep-awake", payloads[0])
		}
	}
	return measurement
}

// addGates adds a run under a schedule.
func addGates(measurement *Measurement, workload string) {
	series := results.Series{Key: results.Key{Path: results.PathDirect, Workload: workload, PayloadBytes: 256, CycleNs: 1_000_000}, LatencyNs: []int64{4000, 5000, 6000}, JitterNs: []int64{1000, 1000}}
	run := runOf(&series)
	beside := 12345
	run.Gates = []results.GateFrames{
		{TrafficClass: 7, CloseNs: 300_000, Sent: 3, Frames: 3},
		{TrafficClass: 1, OpenNs: 600_000, CloseNs: 1_000_000, Sent: 1500, Frames: 1500, OutsideWindow: 2, TransmissionOverrun: 7}}
	run.CompetingFrames = &beside
	measurement.Series = append(measurement.Series, series)
	measurement.Summary.Runs = append(measurement.Summary.Runs, run)
	measurement.Summary.Setup.Gates = &results.GateSetup{LeadNs: 2_900_000, LinkSpeedBps: 1e9, GuardBandNs: 20_000}
}

// latencies have their middle at so many microseconds.
func latencies(random *rand.Rand, count int, middleUs float64) []int64 {
	samples := make([]int64, count)
	for i := range samples {
		us := middleUs * math.Exp(0.2*random.NormFloat64())
		if random.IntN(50) == 0 {
			us *= math.Exp(3 * random.Float64())
		}
		samples[i] = int64(us * 1000)
	}
	return samples
}

func runOf(series *results.Series) *results.Run {
	late := uint64(3)
	run := &results.Run{Path: series.Path, Workload: series.Workload, PayloadBytes: series.PayloadBytes, CycleNs: 1_000_000,
		Counts: results.Counts{Sent: len(series.LatencyNs), Received: len(series.LatencyNs)},
		Distributions: results.Distributions{
			Latency:     stats.Summarize(series.LatencyNs),
			ClockError:  results.OneClock(),
			Jitter:      stats.SummarizeJitter(series.JitterNs),
			LaunchError: stats.Summarize(series.LatencyNs),
			SendCall:    stats.Summarize(series.LatencyNs),
		}}
	if series.Path == results.PathDirect {
		run.DepartureError = stats.Summarize([]int64{8, 10, 300})
		run.CPUCores = map[string]float64{"ktsnd": 0.12}
		run.Late = &late
	}
	return run
}

func rendered(t *testing.T, measurement *Measurement) string {
	t.Helper()
	var out bytes.Buffer
	if err := writePage(&out, measurement); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func writePage(out io.Writer, measurements ...*Measurement) error {
	page, err := newPage(measurements)
	if err != nil {
		return err
	}
	return pageTemplate.Execute(out, page)
}
