// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// share is one line of the gate control list.
type share struct {
	states uint8
	tenths time.Duration // of the cycle
}

// The schedule: 300, 300 and 400 µs of a cycle of 1 ms.
var shares = []share{{1 << 7, 3}, {1 << 6, 3}, {1<<6 - 1, 4}}

// window is when in the cycle the gates of some classes are open.
type window struct {
	states      uint8
	open, close time.Duration
}

func windows(cycle time.Duration, wanted engine.Window) []window {
	if wanted != (engine.Window{}) {
		return apart(1<<priorityWindow, 0xff, cycle, wanted)
	}
	all := make([]window, len(shares))
	var at time.Duration
	for i, share := range shares {
		end := at + cycle*share.tenths/10
		all[i] = window{share.states, at, end}
		at = end
	}
	return all
}

// apart gives a window to some of all classes, and the rest of the cycle to the others.
func apart(to, all uint8, cycle time.Duration, wanted engine.Window) []window {
	return []window{{to, wanted.Open, wanted.Close}, {all &^ to, wanted.Close % cycle, wanted.Open}}
}

// windowOf returns when in the cycle the gate of a class is open; each class has one window, which may cross the end of
// the cycle.
func windowOf(class uint8, cycle time.Duration, wanted engine.Window) window {
	all := windows(cycle, wanted)
	return all[slices.IndexFunc(all, func(w window) bool { return w.states>>class&1 == 1 })]
}

// middleOf is the middle of a class's window.
func middleOf(class uint8, cycle time.Duration) time.Duration {
	w := windowOf(class, cycle, engine.Window{})
	return (w.open + w.close) / 2
}

// contains reports whether a time lies in the window, to the nanosecond.
func (w window) contains(tai int64, cycle time.Duration) bool {
	phase := time.Duration(tai % cycle.Nanoseconds())
	if w.close <= w.open {
		return phase >= w.open || phase < w.close
	}
	return phase >= w.open && phase < w.close
}

// entries returns the windows in order of their beginnings, from the beginning of the cycle to its end. A window that
// crosses it is divided.
func entries(cycle time.Duration, windows []window) []window {
	var all []window
	for _, w := range windows {
		if w.open < w.close {
			all = append(all, w)
			continue
		}
		all = append(all, window{w.states, w.open, cycle}, window{w.states, 0, w.close})
	}
	all = slices.DeleteFunc(all, func(w window) bool { return w.open == w.close })
	slices.SortFunc(all, func(a, b window) int { return cmp.Compare(a.open, b.open) })
	return all
}

// ScheduleOf returns the schedule for ktsnd. The base time is the clock's epoch, so cycles begin at whole multiples.
func ScheduleOf(cycle time.Duration, wanted engine.Window) *control.GateParameterTable {
	return tableOf(cycle, windows(cycle, wanted))
}

// KernelClasses are those of the experiment with TSN in Kata containers: which of four classes each SO_PRIORITY leads
// to. KernelWindowClass is that of the measured messages.
var KernelClasses = control.TrafficClassMap{3, 3, 3, 3, 3, 3, KernelWindowClass, 3, 3, 3, 3, 3, 3, 3, 3, 3}

// KernelWindowClass is the class of the measured messages in a kernel's schedule, and KernelWindowPCP the priority in
// their tags.
const (
	KernelWindowClass = 1
	KernelWindowPCP   = priorityWindow
)

// KernelScheduleOf returns the same schedule for a kernel with KernelClasses.
func KernelScheduleOf(cycle time.Duration, wanted engine.Window) *control.GateParameterTable {
	const classes = 0b1111
	return tableOf(cycle, apart(1<<KernelWindowClass, classes, cycle, wanted))
}

func tableOf(cycle time.Duration, windows []window) *control.GateParameterTable {
	table := &control.GateParameterTable{
		GateEnabled:     true,
		AdminGateStates: 0xff,
		AdminCycleTime:  control.CycleTime{Numerator: uint32(cycle.Nanoseconds()), Denominator: 1e9},
	}
	for i, window := range entries(cycle, windows) {
		table.AdminControlList.Entries = append(table.AdminControlList.Entries, control.GateControlEntry{
			Index:             uint32(i),
			OperationName:     control.SetGateStates,
			TimeIntervalValue: uint32((window.close - window.open).Nanoseconds()),
			GateStatesValue:   window.states,
		})
	}
	return table
}

// Flow is what one talker sent through ktsnd in a run with gates.
type Flow struct {
	RunID    uint32
	Priority int
	// Sent were accepted by the send call.
	Sent  int
	Class uint8
}

// Gates has the observations of gates in a run.
type Gates struct {
	Cycle    time.Duration
	Window   engine.Window
	Flows    []Flow
	Overruns [control.TrafficClasses]uint64
}

// judge compares the wire with the schedule: one entry for each class that sent something, the most important first. It
// reports violations of the schedule. A frame outside its window is a figure if ktsnd reported that message as an
// overrun, and a failure if it did not.
func (g *Gates) judge(messages []wireMessage, departures []control.Departure) (classes []results.GateFrames, problems []string) {
	flows := slices.Clone(g.Flows)
	slices.SortStableFunc(flows, func(a, b Flow) int { return cmp.Compare(b.Class, a.Class) })
	for _, flow := range flows {
		ofFlow := slices.DeleteFunc(slices.Clone(messages), func(m wireMessage) bool { return m.runID != flow.RunID })
		class, outside := g.countFrames(flow, ofFlow)
		classes = append(classes, class)
		if class.Frames != class.Sent {
			problems = append(problems, fmt.Sprintf("ktsnd was handed %d messages of class %d and the tap saw %d",
				class.Sent, class.TrafficClass, class.Frames))
		}
		if unreported := unreported(outside, ofFlow, departures); unreported > 0 {
			problems = append(problems, fmt.Sprintf("%d frames of class %d were outside their window, and ktsnd reported no overrun of %d of them",
				class.OutsideWindow, class.TrafficClass, unreported))
		}
	}
	return classes, problems
}

// countFrames counts the frames of one flow, and returns those outside the window of its class.
func (g *Gates) countFrames(flow Flow, messages []wireMessage) (class results.GateFrames, outside []wireMessage) {
	window := windowOf(flow.Class, g.Cycle, g.Window)
	class = results.GateFrames{
		TrafficClass:        flow.Class,
		OpenNs:              window.open.Nanoseconds(),
		CloseNs:             window.close.Nanoseconds(),
		Sent:                flow.Sent,
		TransmissionOverrun: g.Overruns[flow.Class],
		Frames:              len(messages),
	}
	for _, message := range messages {
		if !window.contains(message.tai, g.Cycle) {
			outside = append(outside, message)
		}
	}
	class.OutsideWindow = len(outside)
	if len(messages) > 0 {
		first, last := messages[0].tai, messages[len(messages)-1].tai
		class.Cycles = int(last/g.Cycle.Nanoseconds()-first/g.Cycle.Nanoseconds()) + 1
	}
	return class, outside
}

// unreported counts the frames outside their window for which ktsnd reported no overrun, by their transmit times.
func unreported(outside, all []wireMessage, departures []control.Departure) int {
	sent := make(map[int64]bool, len(all))
	for _, message := range all {
		sent[message.txtime] = true
	}
	overruns := map[int64]int{}
	for _, departure := range ofLargestFlow(departures, func(d *control.Departure) bool { return sent[d.RequestedTAI] }) {
		if departure.Overrun {
			overruns[departure.RequestedTAI]++
		}
	}
	count := 0
	for _, message := range outside {
		if overruns[message.txtime] == 0 {
			count++
		} else {
			overruns[message.txtime]--
		}
	}
	return count
}
