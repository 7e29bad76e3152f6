// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

func TestScheduleDividesTheCycle(t *testing.T) {
	for cycle, want := range map[time.Duration][]uint32{
		time.Millisecond:       {300_000, 300_000, 400_000},
		100 * time.Microsecond: {30_000, 30_000, 40_000},
	} {
		table := ScheduleOf(cycle, engine.Window{})
		var intervals []uint32
		var states []uint8
		for i, entry := range table.AdminControlList.Entries {
			if entry.Index != uint32(i) || entry.OperationName != control.SetGateStates {
				t.Errorf("entry %d is %+v", i, entry)
			}
			intervals, states = append(intervals, entry.TimeIntervalValue), append(states, entry.GateStatesValue)
		}
		if !slices.Equal(intervals, want) || !slices.Equal(states, []uint8{0x80, 0x40, 0x3f}) ||
			table.AdminCycleTime.Nanoseconds() != cycle.Nanoseconds() || !table.GateEnabled {
			t.Errorf("%v: the schedule is %+v", cycle, table)
		}
	}
}

func TestProfileWindow(t *testing.T) {
	const cycle = 2 * time.Millisecond
	wanted := engine.Window{Open: 1200 * time.Microsecond, Close: 1300 * time.Microsecond, Offset: 50 * time.Microsecond}
	table := ScheduleOf(cycle, wanted)
	var intervals []uint32
	var states []uint8
	for _, entry := range table.AdminControlList.Entries {
		intervals, states = append(intervals, entry.TimeIntervalValue), append(states, entry.GateStatesValue)
	}
	if !slices.Equal(intervals, []uint32{1_200_000, 100_000, 700_000}) || !slices.Equal(states, []uint8{0xbf, 0x40, 0xbf}) {
		t.Errorf("the schedule is %v, %x", intervals, states)
	}
	for class, at := range map[uint8][4]bool{6: {false, true, false, false}, 1: {true, false, true, true}} {
		for i, phase := range []int64{1_199_999, 1_200_000, 1_300_000, 0} {
			if got := windowOf(class, cycle, wanted).contains(phase, cycle); got != at[i] {
				t.Errorf("class %d at %d ns: %v", class, phase, got)
			}
		}
	}
	for _, workload := range append([]string{results.WorkloadPlain}, engine.GateWorkloads...) {
		r := engine.Run{Key: results.Key{Workload: workload, CycleNs: cycle.Nanoseconds()}, Talkers: 1, Window: wanted}
		due, priority := 1250*time.Microsecond, 6
		if workload == results.WorkloadPlain { // at the beginning of the cycle
			due, priority = 0, 0
		}
		if got := OffsetOf(r, 0); got != due || PriorityOf(r) != priority {
			t.Errorf("%s: due at %v, priority %d", workload, got, PriorityOf(r))
		}
		if got := LeadAmong(r); priority != 0 && got != due {
			t.Errorf("%s: handed over %v before, which is not the beginning of the cycle", workload, got)
		}
		for _, companion := range CompanionsOf(r, results.PathKernelVXLAN) {
			if !companion.Flood {
				t.Errorf("%s: beside it %+v", workload, companion)
			}
		}
	}
}

func TestWindowAcrossCycleEnd(t *testing.T) {
	for wanted, want := range map[engine.Window]int{
		{Open: 0, Close: 100_000}:         2,
		{Open: 900_000, Close: 1_000_000}: 2,
		{Open: 1, Close: 999_999}:         3,
	} {
		var sum uint32
		entries := ScheduleOf(time.Millisecond, wanted).AdminControlList.Entries
		for _, entry := range entries {
			sum += entry.TimeIntervalValue
		}
		if len(entries) != want || sum != 1_000_000 {
			t.Errorf("%+v: %+v", wanted, entries)
		}
	}
}

func TestWindowContains(t *testing.T) {
	const cycle = time.Millisecond
	for class, edges := range map[uint8][2]int64{7: {0, 300_000}, 6: {300_000, 600_000}, 5: {600_000, 1_000_000}, 0: {600_000, 1_000_000}} {
		const start = 1_790_000_000_123_000_000 // of a cycle
		open, end := start+edges[0], start+edges[1]
		w := windowOf(class, cycle, engine.Window{})
		for tai, want := range map[int64]bool{open - 1: false, open: true, end - 1: true, end: false} {
			if w.contains(tai, cycle) != want {
				t.Errorf("class %d, %d ns behind the beginning of the cycle: %v", class, tai-start, !want)
			}
		}
	}
}

func TestTransmitTimesAreInWindows(t *testing.T) {
	for _, workload := range engine.GateWorkloads {
		for _, cycle := range []time.Duration{100 * time.Microsecond, time.Millisecond, 100 * time.Millisecond} {
			if w := windowOf(priorityMeasured, cycle, engine.Window{}); !w.contains(OffsetOf(engine.Run{Key: results.Key{Workload: workload, CycleNs: cycle.Nanoseconds()}, Talkers: 1}, 0).Nanoseconds(), cycle) {
				t.Errorf("%s, %v: the messages are outside %v", workload, cycle, w)
			}
			for _, companion := range CompanionsOf(engine.Run{Key: results.Key{Workload: workload, CycleNs: cycle.Nanoseconds()}}, results.PathKernelVXLAN) {
				if w := windowOf(priorityOther, cycle, engine.Window{}); !companion.Flood && !w.contains(companion.Offset.Nanoseconds(), cycle) {
					t.Errorf("%s, %v: those of %s are outside %v", workload, cycle, companion.Name, w)
				}
			}
		}
	}
}

func TestTimersExpireBetweenDepartures(t *testing.T) {
	for _, cycle := range []time.Duration{100 * time.Microsecond, time.Millisecond, 7 * time.Millisecond} {
		for talkers := 2; talkers <= 8; talkers++ {
			r := engine.Run{Key: results.Key{Workload: results.WorkloadTalkers, CycleNs: cycle.Nanoseconds()}, Talkers: talkers}
			between := cycle / time.Duration(talkers)
			if got := LeadAmong(r); got < lead || got%between != between/2 {
				t.Errorf("%d talkers, %v: a lead of %v, and departures each %v", talkers, cycle, got, between)
			}
		}
	}
}

// withGates is perfect with a schedule: three messages of class 7 in its window, two of class 1 in theirs and one
// past ktsnd.
func withGates(t *testing.T) *Observation {
	t.Helper()
	seen := perfect(t)
	seen.Gates = &Gates{Cycle: testCycle,
		Flows: []Flow{{RunID: testRun + 1, Class: 1, Sent: 2}, {RunID: testRun, Class: 7, Sent: 3}},
	}
	seen.Competing = []uint32{testRun + 2}
	seen.Capture.Packets = append(seen.Capture.Packets,
		frame(t, testRun+1, 0, testBase+600), frame(t, testRun+1, 1, testBase+testCycle+999), frame(t, testRun+2, 0, testBase))
	return seen
}

func TestCountFrames(t *testing.T) {
	seen := withGates(t)
	seen.Gates.Overruns[7] = 4
	outcome, err := Join(seen)
	if err != nil {
		t.Fatal(err)
	}
	want := []results.GateFrames{
		{TrafficClass: 7, OpenNs: 0, CloseNs: 300, Sent: 3, Frames: 3, Cycles: 3, TransmissionOverrun: 4},
		{TrafficClass: 1, OpenNs: 600, CloseNs: 1000, Sent: 2, Frames: 2, Cycles: 2},
	}
	counts := outcome.Observed.Counts
	if !slices.Equal(counts.Gates, want) || counts.CompetingFrames == nil || *counts.CompetingFrames != 1 || len(outcome.Problems) != 0 {
		t.Errorf("counts are %+v, problems %q", counts, outcome.Problems)
	}
	for _, message := range outcome.Messages {
		if message.Departed != message.Txtime+50 {
			t.Errorf("%+v did not depart 50 ns after its time", message)
		}
	}
}

// departure of a flow's message that is due when a frame of class 1 is.
func departure(flow uint64, sequence int64) control.Departure {
	due := testBase + sequence*testCycle + besideOffset
	return control.Departure{Flow: flow, RequestedTAI: due, DepartedTAI: due + 50}
}

// overrun is one that ktsnd counted as such.
func overrun(flow uint64, sequence int64) control.Departure {
	late := departure(flow, sequence)
	late.Overrun = true
	return late
}

func TestJudge(t *testing.T) {
	// The first message of class 1 was on the wire at that time instead.
	outside := func(o *Observation, tai int64) { o.Capture.Packets[5] = frame(t, testRun+1, 0, tai) }
	for name, test := range map[string]struct {
		change  func(*Observation)
		outside int
		problem string
	}{
		"a frame outside that ktsnd reported is a figure": {
			func(o *Observation) {
				outside(o, testBase+testCycle)
				o.Departures = append(o.Departures, overrun(2, 0), overrun(2, 1))
			}, 1, ""},
		"one that it did not report is a failure": {
			func(o *Observation) { outside(o, testBase+testCycle) }, 1,
			"1 frames of class 1 were outside their window, and ktsnd reported no overrun of 1 of them"},
		"overruns of other frames of the class do not excuse it": {
			func(o *Observation) {
				outside(o, testBase+testCycle)
				o.Departures = append(o.Departures, departure(2, 0), overrun(2, 1), overrun(2, 2))
				o.Gates.Overruns[1] = 2
			}, 1, "1 frames of class 1"},
		"nor does one of another flow that was due at the same time": {
			func(o *Observation) {
				outside(o, testBase+testCycle)
				o.Departures = append(o.Departures, departure(2, 0), departure(2, 1), overrun(3, 0))
			}, 1, "1 frames of class 1"},
		"nor one overrun two frames of that time": {
			func(o *Observation) {
				outside(o, testBase+testCycle)
				o.Capture.Packets = append(o.Capture.Packets, frame(t, testRun+1, 0, testBase+testCycle+1))
				o.Gates.Flows[0].Sent = 3
				o.Departures = append(o.Departures, overrun(2, 0), departure(2, 1))
			}, 2, "2 frames of class 1 were outside their window, and ktsnd reported no overrun of 1 of them"},
		"one before its window is no better": {
			func(o *Observation) { outside(o, testBase+599) }, 1, "1 frames of class 1"},
		"a message that never came": {
			func(o *Observation) { o.Gates.Flows[0].Sent = 5 }, 0, "handed 5 messages of class 1 and the tap saw 2"},
	} {
		t.Run(name, func(t *testing.T) {
			seen := withGates(t)
			test.change(seen)
			outcome, err := Join(seen)
			if err != nil {
				t.Fatal(err)
			}
			problems := strings.Join(outcome.Problems, "; ")
			if !strings.Contains(problems, test.problem) || (test.problem == "") != (problems == "") {
				t.Errorf("problems: %q, want %q", problems, test.problem)
			}
			if got := outcome.Observed.Gates[1].OutsideWindow; got != test.outside {
				t.Errorf("%d frames are outside, want %d", got, test.outside)
			}
		})
	}
}

func TestForeignDeparturesAreIgnored(t *testing.T) {
	sent := []tsnperf.Sent{{Txtime: 100}, {Txtime: 200}, {Txtime: 300}}
	got := departureTimes([]control.Departure{
		{Flow: 2, RequestedTAI: 100, DepartedTAI: 900},
		{Flow: 1, RequestedTAI: 100, DepartedTAI: 101},
		{Flow: 1, RequestedTAI: 200, DepartedTAI: 201},
		{Flow: 2, RequestedTAI: 250, DepartedTAI: 901},
		{Flow: 2, RequestedTAI: 200, DepartedTAI: 902},
		{Flow: 1, RequestedTAI: 300, DepartedTAI: 301},
	}, sent)
	if len(got) != 3 || got[100] != 101 || got[200] != 201 || got[300] != 301 {
		t.Errorf("departures are %v", got)
	}
}

func TestKernelScheduleOf(t *testing.T) {
	const cycle = 40 * time.Millisecond
	wanted := engine.Window{Open: 24 * time.Millisecond, Close: 26 * time.Millisecond, Offset: time.Millisecond}
	table := KernelScheduleOf(cycle, wanted)
	var intervals []uint32
	var states []uint8
	for _, entry := range table.AdminControlList.Entries {
		intervals, states = append(intervals, entry.TimeIntervalValue), append(states, entry.GateStatesValue)
	}
	if !slices.Equal(intervals, []uint32{24_000_000, 2_000_000, 14_000_000}) || !slices.Equal(states, []uint8{0b1101, 0b0010, 0b1101}) {
		t.Errorf("the schedule is %v, %b", intervals, states)
	}
	r := engine.Run{Key: results.Key{Path: results.PathGuestTaprio, Workload: results.WorkloadGates, CycleNs: cycle.Nanoseconds()}, Talkers: 1, Window: wanted}
	if class := KernelClasses[PriorityOf(r)]; class != KernelWindowClass {
		t.Errorf("messages are of class %d", class)
	}
	if lead := LeadAmong(r); lead != 105*time.Millisecond {
		t.Errorf("they are handed over %v ahead, which is not at the beginning of a cycle", lead)
	}
}

func TestJudgeGuestFrames(t *testing.T) {
	// The machine's clock is 7 ahead; ktsnd reports an overrun by the time that it was told.
	seen := withGates(t)
	seen.Capture.Packets[2] = frame(t, testRun, 0, testBase+300)
	for i := range seen.Talkers[0].Sent {
		seen.Talkers[0].Sent[i].Txtime -= 7
		seen.Departures[i].RequestedTAI -= 7
	}
	seen.Departures[0].Overrun = true
	for name, machine := range map[string]*results.ClockError{"a machine": {}, "a pod": nil} {
		seen.GuestClock = machine
		outcome, err := Join(seen)
		if err != nil {
			t.Fatal(err)
		}
		if reported := !strings.Contains(strings.Join(outcome.Problems, "; "), "reported no overrun"); reported != (machine != nil) {
			t.Errorf("%s: problems %q", name, outcome.Problems)
		}
	}
}

func TestLeadOf(t *testing.T) {
	for path, leadTime := range map[string]time.Duration{results.PathDirect: lead, results.PathGuestTap: engine.GuestLead} {
		r := engine.Run{Key: results.Key{Path: path, Workload: results.WorkloadPlain, CycleNs: 10_000_000}, Talkers: 1}
		if got := LeadAmong(r); got != leadTime {
			t.Errorf("%s: %v ahead, not %v", path, got, leadTime)
		}
		r.LeadNs = 102_500_000
		if got := LeadAmong(r); got != 102500*time.Microsecond {
			t.Errorf("%s: %v ahead, and the profile says 102.5 ms", path, got)
		}
	}
}
