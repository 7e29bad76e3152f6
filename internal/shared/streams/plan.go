// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/schedule"
)

// Plan is a verified schedule.
type Plan struct {
	BaseTime control.PTPTime `json:"base-time"`
	Streams  []Assignment    `json:"streams"`
	// Ports are the egress ports that streams use, by name.
	Ports []PortSchedule `json:"ports"`
}

// Assignment is the part of a plan that belongs to a stream.
type Assignment struct {
	Name         string   `json:"name"`
	Interval     Interval `json:"interval"`
	TrafficClass uint8    `json:"traffic-class"`
	Frames       []Frame  `json:"frames"`
	// WorstCaseLatencyNs is from a frame's transmit offset to its last bit at the last listener, if it is late by ToleranceNs.
	WorstCaseLatencyNs int64 `json:"worst-case-latency"`
	// ToleranceNs is how late a frame may be without leaving its windows.
	ToleranceNs int64 `json:"tolerance"`
}

// Frame is a frame of each interval.
type Frame struct {
	// TransmitOffsetNs is the time of the first bit in the interval.
	TransmitOffsetNs int64 `json:"transmit-offset"`
	Hops             []Hop `json:"hops"`
}

// Hop is the transmission of a frame by a port. Its start counts from the beginning of the interval and may exceed the interval.
type Hop struct {
	Port    string `json:"port"`
	StartNs int64  `json:"start"`
	WireNs  int64  `json:"wire-time"`
}

// PortSchedule is the gate control list of an egress port.
type PortSchedule struct {
	Port      string                     `json:"port"`
	LinkSpeed string                     `json:"link-speed"`
	Table     control.GateParameterTable `json:"gate-parameter-table"`
}

// plan writes down the placements.
func (s *solver) plan(in *Input) (*Plan, *Error) {
	plan := &Plan{BaseTime: in.BaseTime}
	windows := map[int][]window{}
	for i := range s.jobs {
		j := &s.jobs[i]
		a := Assignment{Name: j.Name, Interval: j.Interval, TrafficClass: j.class, ToleranceNs: s.toleranceNs(j.placed.route)}
		for _, starts := range j.placed.starts {
			frame := Frame{TransmitOffsetNs: starts[0]}
			for k, h := range j.placed.route.hops {
				frame.Hops = append(frame.Hops, Hop{Port: s.ports[h.port].name, StartNs: starts[k], WireNs: h.wireNs})
				fromNs := s.plannedArrivalNs(j.placed.route, k, starts) - h.earlyNs
				windows[h.port] = append(windows[h.port], window{fromNs, starts[k], starts[k] + h.occupyNs, j.intervalNs, j.class})
			}
			for _, leaf := range j.placed.route.leaves {
				h := &j.placed.route.hops[leaf]
				latency := starts[leaf] + h.wireNs + s.ports[h.port].delayNs - starts[0] + a.ToleranceNs
				a.WorstCaseLatencyNs = max(a.WorstCaseLatencyNs, latency)
			}
			a.Frames = append(a.Frames, frame)
		}
		plan.Streams = append(plan.Streams, a)
	}
	var scheduled uint8 // classes of streams
	for i := range s.jobs {
		scheduled |= 1 << s.jobs[i].class
	}
	for _, at := range sortedKeys(windows) {
		p := &s.ports[at]
		table, err := s.gates(p, windows[at], scheduled, in.BaseTime)
		if err != nil {
			return nil, err
		}
		plan.Ports = append(plan.Ports, PortSchedule{Port: p.name, LinkSpeed: schedule.LinkSpeed(p.bps), Table: *table})
	}
	slices.SortFunc(plan.Ports, func(a, b PortSchedule) int { return cmp.Compare(a.Port, b.Port) })
	return plan, nil
}

// window is a time in which only the gate of a class is open, in each interval.
type window struct {
	fromNs, startNs, endNs, intervalNs int64 // fromNs is when the frame is in the queue, at the earliest
	class                              uint8
}

// gates makes the gate control list of a port: the windows of its cycle, and between them the gates of the classes without streams. The
// cycle begins with a window, so that none is divided.
func (s *solver) gates(p *port, windows []window, scheduled uint8, base control.PTPTime) (*control.GateParameterTable, *Error) {
	cycleNs := int64(1)
	for _, w := range windows {
		cycleNs = lcm(cycleNs, w.intervalNs, s.SupportedCycleMaxNs) // checkPorts has checked it
	}
	count := int64(0)
	for _, w := range windows {
		count += cycleNs / w.intervalNs
	}
	all := make([]window, 0, count)
	for _, w := range windows {
		for at := w.startNs % w.intervalNs; at < cycleNs; at += w.intervalNs {
			all = append(all, window{fromNs: at + w.fromNs - w.startNs, startNs: at, endNs: at + w.endNs - w.startNs, class: w.class})
		}
	}
	slices.SortFunc(all, func(a, b window) int { return cmp.Compare(a.startNs, b.startNs) })
	closeGaps(all, cycleNs, p.wireNs(minDataBytes+*s.OverheadBytes)-1) // a gap too short for a frame is useless
	entries := list(all, cycleNs, ^scheduled)
	for gapNs := p.wireNs(minDataBytes + *s.OverheadBytes); len(entries) > s.SupportedListMax && gapNs < cycleNs; gapNs *= 2 {
		closeGaps(all, cycleNs, gapNs)
		entries = list(all, cycleNs, ^scheduled)
	}
	if len(entries) > s.SupportedListMax {
		return nil, fault("streams", "port %s needs %d entries in its gate control list; it has at most %d (topology.supported-list-max): "+
			"raise intervals, use those that divide each other, or move streams to other links", p.name, len(entries), s.SupportedListMax)
	}
	table := &control.GateParameterTable{GateEnabled: true, AdminGateStates: ^scheduled, AdminBaseTime: addNs(base, all[0].startNs),
		QueueMaxSDUTable: []control.QueueMaxSDU{}}
	table.AdminControlList.Entries = entries
	cycle := IntervalOf(cycleNs)
	if cycle == (Interval{}) {
		return nil, fault("streams", "the cycle of port %s is %d ns, which has more than 32 bits as a fraction of a second; use intervals that divide each "+
			"other, or are multiples of 1000 ns", p.name, cycleNs)
	}
	table.AdminCycleTime = control.CycleTime{Numerator: cycle.Numerator, Denominator: cycle.Denominator}
	return table, nil
}

// closeGaps extends each window over a gap of at most so long after it, unless a frame of its class may be in the queue meanwhile: an open
// gate would let it pass early.
func closeGaps(all []window, cycleNs, longestNs int64) {
	var next [control.TrafficClasses]int64 // when the next frame of a class is in the queue
	for k := 2*len(all) - 1; k >= 0; k-- {
		i, roundNs := k%len(all), int64(k/len(all))*cycleNs
		w := &all[i]
		nextNs := all[0].startNs + cycleNs
		if i+1 < len(all) {
			nextNs = all[i+1].startNs
		}
		if roundNs == 0 && nextNs-w.endNs <= longestNs && next[w.class] >= nextNs {
			w.endNs = nextNs
		}
		next[w.class] = w.fromNs + roundNs
	}
}

// list returns the entries of a cycle that begins with the first window.
func list(all []window, cycleNs int64, otherwise uint8) (entries []control.GateControlEntry) {
	entries = make([]control.GateControlEntry, 0, 2*len(all))
	hold := func(states uint8, ns int64) {
		if last := len(entries) - 1; last >= 0 && entries[last].GateStatesValue == states && int64(entries[last].TimeIntervalValue)+ns <= math.MaxUint32 {
			entries[last].TimeIntervalValue += uint32(ns)
			return
		}
		for ; ns > 0; ns -= math.MaxUint32 {
			entries = append(entries, control.GateControlEntry{Index: uint32(len(entries)), OperationName: control.SetGateStates,
				TimeIntervalValue: uint32(min(ns, math.MaxUint32)), GateStatesValue: states})
		}
	}
	for i, w := range all {
		nextNs := all[0].startNs + cycleNs
		if i+1 < len(all) {
			nextNs = all[i+1].startNs
		}
		hold(1<<w.class, w.endNs-w.startNs)
		if nextNs > w.endNs {
			hold(otherwise, nextNs-w.endNs)
		}
	}
	return entries
}

func addNs(at control.PTPTime, ns int64) control.PTPTime {
	sum := int64(at.Nanoseconds) + ns
	return control.PTPTime{Seconds: at.Seconds + uint64(sum/1e9), Nanoseconds: uint32(sum % 1e9)}
}

// NextStart returns the first time from notBefore on at which a plan with other streams can replace a running one: a common beginning of the
// cycles of all ports of both, so that no cycle is cut. The base times of both plans count from the same time.
func NextStart(running, next *Plan, notBefore control.PTPTime) (control.PTPTime, error) {
	common := int64(1)
	for _, plan := range []*Plan{running, next} {
		for i := range plan.Ports {
			if common = lcm(common, plan.Ports[i].Table.AdminCycleTime.Nanoseconds(), 3600e9); common == 0 {
				return control.PTPTime{}, fmt.Errorf("the cycles of port %s and of the ports before it begin together less than once an hour; use "+
					"intervals that divide each other", plan.Ports[i].Port)
			}
		}
	}
	elapsed := (int64(notBefore.Seconds)-int64(running.BaseTime.Seconds))*1e9 + int64(notBefore.Nanoseconds) - int64(running.BaseTime.Nanoseconds)
	return addNs(running.BaseTime, roundUp(max(elapsed, 0), common)), nil
}
