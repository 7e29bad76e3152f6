// SPDX-License-Identifier: Apache-2.0

package results

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

func TestSummaryMatchesSchema(t *testing.T) {
	run := &Run{Path: "direct", Workload: WorkloadPlain, PayloadBytes: 64, CycleNs: 1_000_000,
		Distributions: Distributions{Latency: &stats.Summary{}, Jitter: &stats.Jitter{},
			CPUCores: map[string]float64{"ktsnd": 0.1}}}
	text, err := json.Marshal(Summary{Schema: Schema, Runs: []*Run{run}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"schema":1`, `"host":{`, `"runs":[{"path":"direct","workload":"plain","payload_bytes":64,"cycle_ns":1000000,"sent":0,`,
		`"received":0`, `"lost":0`, `"early":0`,
		`"latency_ns":{"min":0,"p50":0,"p90":0,"p99":0,"p99_9":0,"max":0}`,
		`"jitter_ns":{"min":0,"p50":0,"p90":0,"p99":0,"p99_9":0,"max":0,"abs_p50":0,"abs_p99":0}`,
		`"launch_error_ns":`, `"departure_error_ns":null`, `"send_call_ns":`, `"cpu_cores":{"ktsnd":0.1}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func TestPoolCounts(t *testing.T) {
	two, three := uint64(2), uint64(3)
	counts := PoolCounts([]Alternation{
		{Counts: Counts{Sent: 10, Received: 9, Lost: 1, Late: &two}},
		{Counts: Counts{Sent: 5, Received: 5, Early: 1, Late: &three}},
	})
	if counts.Sent != 15 || counts.Received != 14 || counts.Lost != 1 || counts.Early != 1 || *counts.Late != 5 {
		t.Errorf("got %+v", counts)
	}
	if PoolCounts([]Alternation{{}}).Late != nil {
		t.Error("late messages of a path that counts none")
	}
}

func TestPoolGates(t *testing.T) {
	three, four := 3, 4
	first := Alternation{Counts: Counts{CompetingFrames: &three, Gates: []GateFrames{
		{TrafficClass: 7, CloseNs: 300, Sent: 10, Frames: 10, Cycles: 12, OutsideWindow: 1, TransmissionOverrun: 2}}}}
	counts := PoolCounts([]Alternation{first, {Counts: Counts{CompetingFrames: &four, Gates: []GateFrames{
		{TrafficClass: 7, CloseNs: 300, Sent: 5, Frames: 4, Cycles: 3, OutsideWindow: 2, TransmissionOverrun: 2},
		{TrafficClass: 1, OpenNs: 600, CloseNs: 1000, Sent: 50, Frames: 50}}}}})
	want := []GateFrames{
		{TrafficClass: 7, CloseNs: 300, Sent: 15, Frames: 14, Cycles: 15, OutsideWindow: 3, TransmissionOverrun: 4},
		{TrafficClass: 1, OpenNs: 600, CloseNs: 1000, Sent: 50, Frames: 50}}
	if !slices.Equal(counts.Gates, want) || *counts.CompetingFrames != 7 {
		t.Errorf("got %+v", counts)
	}
	if first.Gates[0].Sent != 10 || three != 3 {
		t.Error("the first alternation was changed")
	}
	if none := PoolCounts([]Alternation{{}}); none.Gates != nil || none.CompetingFrames != nil {
		t.Error("frames of classes in a run without a schedule")
	}
}

func TestMedianOf(t *testing.T) {
	var alternations []Alternation
	for _, value := range []int64{3, 1, 2} {
		summary := &stats.Summary{P50: value}
		alternations = append(alternations, Alternation{Distributions: Distributions{
			Latency: summary, LaunchError: summary, SendCall: summary,
			Jitter:   &stats.Jitter{AbsP50: value},
			CPUCores: map[string]float64{"ktsnd": float64(value)}}})
	}
	got := MedianOf(alternations)
	if got.Latency.P50 != 2 || got.LaunchError.P50 != 2 || got.SendCall.P50 != 2 || got.Jitter.AbsP50 != 2 ||
		got.CPUCores["ktsnd"] != 2 {
		t.Errorf("got %+v", got)
	}
	if got.DepartureError != nil {
		t.Error("a departure error that nobody measured")
	}
}

func TestWriteMessagesWithGaps(t *testing.T) {
	var text strings.Builder
	writer := NewMessageWriter(&text)
	err := errors.Join(
		writer.Write(Key{"direct", WorkloadPlain, 64, 1000}, 1, []Message{{0, 0, 1000, 700, 701, 1001, 1002, 1009, 0, 0}}),
		writer.Write(Key{"host", WorkloadPlain, 256, 1000}, 2, []Message{{3, 1, 2000, 2001, 2003, 0, 0, 0, 105, 1995}}),
		writer.Flush())
	want := messageColumns + "\n" +
		"direct,plain,64,1000,1,0,0,1000,700,701,1001,1002,1009,0,\n" +
		"host,plain,256,1000,2,3,1,2000,2001,2003,,,,105,1995\n"
	if err != nil || text.String() != want {
		t.Errorf("got %v\n%s", err, text.String())
	}
}

func TestMessagesRoundTrip(t *testing.T) {
	want := []Message{{0, 0, 1000, 700, 701, 1001, 1002, 1009, 0, 0}, {3, 4294967295, 2000, 2001, 2003, 0, 0, 0, 105, 1995}}
	var text strings.Builder
	writer := NewMessageWriter(&text)
	if err := errors.Join(writer.Write(Key{"direct", WorkloadPlain, 64, 1000}, 1, want), writer.Flush()); err != nil {
		t.Fatal(err)
	}
	got, err := ReadMessages(strings.NewReader(text.String()))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, broken := range map[string]string{
		"other columns":     strings.Replace(text.String(), "path,", "way,", 1),
		"a field missing":   strings.Replace(text.String(), ",1009,0", ",1009", 1),
		"a field too much":  strings.Replace(text.String(), ",1009,0", ",1009,0,0", 1),
		"a word for a time": strings.Replace(text.String(), ",1009,", ",soon,", 1),
		"nothing":           "",
	} {
		if got, err := ReadMessages(strings.NewReader(broken)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestDescribeHost(t *testing.T) {
	host, err := DescribeHost(time.Unix(1_700_000_000, 5))
	if err != nil {
		t.Fatal(err)
	}
	if host.Kernel == "" || host.CPUModel == "" || host.Cores < 1 || host.ClockSource == "" || host.Date.Nanosecond() != 0 {
		t.Errorf("got %+v", host)
	}
}

func TestAddSendingCores(t *testing.T) {
	alternations := make([]Alternation, 5)
	paths := []string{PathHostSpin, PathDirect, PathOVS, PathHost, PathTSN}
	for i, cores := range []map[string]float64{
		{"talker": 0.125, "listener": 1}, {"talker": 0.0625, "ktsnd": 0.25, "listener": 1}, {"talker": 0.25, "ktsnd": 0.25, "ovs-vswitchd": 1},
		{"listener": 1}, {"talker": 0.125}} {
		alternations[i].CPUCores = cores
		alternations[i].AddSendingCores(paths[i])
	}
	for i, want := range []float64{0.125, 0.3125, 1.5} {
		if got := alternations[i].SendingCores; got == nil || *got != want {
			t.Errorf("alternation %d: got %v, want %v", i, got, want)
		}
	}
	for i, nobody := range map[int]string{3: "talker", 4: "ktsnd"} {
		if alternations[i].SendingCores != nil {
			t.Errorf("of a %s that nobody looked at there is %v", nobody, *alternations[i].SendingCores)
		}
	}
	if median := MedianOf(alternations).SendingCores; median == nil || *median != 0.3125 {
		t.Errorf("the median is %v", median)
	}
	run := Run{Alternations: alternations}
	if run.Pool(); run.SendingCores == nil || *run.SendingCores != (0.125+0.3125+1.5)/3 {
		t.Errorf("the mean is %v", run.SendingCores)
	}
	if MedianOf(alternations[3:]).SendingCores != nil {
		t.Error("there is a value of nothing")
	}
}
