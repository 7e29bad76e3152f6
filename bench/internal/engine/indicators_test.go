// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// katasWindow is that of the experiment with Kata containers, as the shipped profile has it.
var katasWindow = Window{Open: 1200 * time.Microsecond, Close: 1300 * time.Microsecond, Offset: 50 * time.Microsecond, Stretch: 20,
	GuestEarly: 250 * time.Microsecond}

// caseOf is a record of messages in cycles of 2 ms that were handed over, and on the wire, so long after their times.
func caseOf(workload, path string, handover, launch []int64) *Record {
	key := results.Key{Path: path, Workload: workload, PayloadBytes: 256, CycleNs: 2_000_000}
	record := &Record{Run: Run{Key: key, Number: 1, Repetition: 1, Alternation: 1, Messages: len(launch), Window: katasWindow.On(path)}}
	for i := range launch {
		due := int64(i)*2_000_000 + record.Run.due().Nanoseconds()
		record.Messages = append(record.Messages, results.Message{Sequence: uint32(i), Txtime: due, SendStart: due + handover[i], SendEnd: due + handover[i] + 5,
			Wire: due + launch[i], Arrival: due + launch[i] + 1000})
	}
	return record
}

func TestIndicators(t *testing.T) {
	profile := Defaults()
	profile.Paths = []string{results.PathDirect, results.PathKernelVXLAN}
	profile.Window = katasWindow
	c := &collector{profile: &profile}
	if c.indicators() != nil {
		t.Error("there are indicators of nothing")
	}
	beside := caseOf(results.WorkloadGatesIperf3, results.PathDirect, []int64{-1_240_000, -1_200_000, -1_230_000}, []int64{3000, 4000, 5000})
	beside.Values = map[string]float64{ValueIperf3Bps: 900e6, ValueIperf3Lost: 0.61}
	for _, record := range []*Record{
		caseOf(results.WorkloadPlain, results.PathKernelVXLAN, []int64{20_000, 60_000, 40_000}, []int64{70_000, 100_000, 90_000}), beside} {
		if err := c.add(record); err != nil {
			t.Fatal(err)
		}
	}
	section := c.indicators()
	if section == nil || len(section.Charts) != 6 || len(section.Tables) != 4 {
		t.Fatalf("%+v", section)
	}
	for at, want := range map[[2]int][]string{
		{0, 0}: {"plain, kernel-vxlan", "3", "70.0", "70.0", "90.0", "100", "100", "30.0", "30.0", "30.0", "–"},
		{0, 1}: {"gates-iperf3, direct", "3", "1253", "1253", "1254", "1255", "1255", "2.00", "2.00", "2.00", "100.00 %"},
		{1, 0}: {"plain, kernel-vxlan", "3", "20.0", "20.0", "40.0", "60.0", "60.0", "40.0", "40.0", "40.0", "–"},
		{1, 1}: {"gates-iperf3, direct", "3", "10.0", "10.0", "20.0", "50.0", "50.0", "40.0", "40.0", "40.0", "0.00 %"},
		{2, 1}: {"gates-iperf3, direct", "3", "-1.00", "-1.00", "0.00", "1.00", "1.00", "2.00", "2.00", "2.00"},
		{3, 0}: {"gates-iperf3 1", "900", "61.0"},
	} {
		if got := section.Tables[at[0]].Rows[at[1]]; !slices.Equal(got, want) {
			t.Errorf("table %d, row %d: %q, want %q", at[0], at[1], got, want)
		}
	}
	for _, chart := range section.Charts {
		var sum float64
		for _, point := range chart.Lines[0].Points {
			sum += point.Y
		}
		if sum < 99.9 || sum > 100.1 {
			t.Errorf("%s: the bins hold %g %% of the messages", chart.Title, sum)
		}
	}
}

func TestIndicatorsOfGuests(t *testing.T) {
	// The machine requests a time 40 µs later than the one that ktsnd gets, hands over at the beginning of an earlier
	// cycle, and the gate holds the frame.
	key := results.Key{Path: results.PathGuestTap, Workload: results.WorkloadGates, CycleNs: 2_000_000}
	run := Run{Key: key, Window: katasWindow.On(key.Path)}
	if run.due() != time.Millisecond || run.ahead() != 101*time.Millisecond {
		t.Errorf("messages are due %v behind the beginning of a cycle, and handed over %v ahead", run.due(), run.ahead())
	}
	const beginning = 500_000_000
	converted := int64(beginning + 1_000_000 - 90_000)
	seen := samplesOf([]results.Message{{Txtime: converted, Asked: converted + 40_000, SendStart: converted + 40_000 - 101_000_000 + 300_000, SendEnd: converted - 100_000_000,
		Wire: beginning + 1_204_000}}, &run)
	if !slices.Equal(seen.scheduled, []int64{1_204_000}) || !slices.Equal(seen.application, []int64{300_000}) {
		t.Errorf("the frame is scheduled at %v, and the application's latency %v", seen.scheduled, seen.application)
	}
	// Where the machine's kernel executes the schedule all is longer.
	key = results.Key{Path: results.PathGuestTaprio, Workload: results.WorkloadGates, CycleNs: 40_000_000}
	run = Run{Key: key, Window: katasWindow.On(key.Path)}
	if run.Window != (Window{Open: 24 * time.Millisecond, Close: 26 * time.Millisecond, Offset: time.Millisecond}) || run.ahead() != 105*time.Millisecond {
		t.Errorf("the window is %+v, and messages are handed over %v ahead", run.Window, run.ahead())
	}
}
