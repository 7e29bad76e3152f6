// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"fmt"
	"math/big"
	"slices"
	"sort"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// passage is a frame at a port: in the queue from its earliest arrival on, on the wire from start on, and its window closes.
type passage struct {
	earliestNs, startNs, closesNs int64
	periodNs                      int64
	class                         uint8
	stream                        string
}

// checkedPort is what the verifier knows of an egress port.
type checkedPort struct {
	node, next    string // next is the node at the other end
	bps           int64
	linkDelay     int64
	guard         int64
	nextDelay     int64
	nextMinDelay  int64
	nextIsStation bool
	passages      []passage
	cycle         int64
}

// Verify checks a plan against its input, to which Solve has given the defaults. It derives all times from input and plan, and uses
// neither the solver nor its network:
//
//   - Each frame has a path from its talker to all listeners, with starts that speeds and delays allow, and without waiting unless its
//     class may wait. Offsets and latencies keep the bounds.
//   - In each cycle of a port the windows do not overlap, and the gate control list opens nothing else during a window (8.6.8.4).
//   - Between the earliest arrival of a frame and its window the gate of its class is closed, so that it leaves in its own window, and no other
//     frame of the class is in the queue from its earliest arrival until its window closes, so that it is the first one there. The shortest
//     frame over the fastest way arrives earliest, from a node whose clock is ahead by the guard band.
func Verify(in *Input, plan *Plan) error {
	ports := portsOf(in.Topology)
	streams := map[string]*Stream{}
	for i := range in.Streams {
		streams[in.Streams[i].Name] = &in.Streams[i]
	}
	if len(plan.Streams) != len(in.Streams) {
		return fmt.Errorf("the plan has %d streams instead of %d", len(plan.Streams), len(in.Streams))
	}
	for i := range plan.Streams {
		a := &plan.Streams[i]
		s := streams[a.Name]
		if s == nil {
			return fmt.Errorf("stream %s is there twice, or not in the input", a.Name)
		}
		delete(streams, a.Name)
		if err := verifyStream(in.Topology, ports, s, a); err != nil {
			return fmt.Errorf("stream %s: %w", a.Name, err)
		}
	}
	tables := map[string]*PortSchedule{}
	for i := range plan.Ports {
		tables[plan.Ports[i].Port] = &plan.Ports[i]
	}
	for name, p := range ports {
		if len(p.passages) == 0 {
			continue
		}
		if tables[name] == nil {
			return fmt.Errorf("port %s has no gate control list", name)
		}
		if err := verifyPort(plan, p, tables[name]); err != nil {
			return fmt.Errorf("port %s: %w", name, err)
		}
	}
	return nil
}

func portsOf(t *Topology) map[string]*checkedPort {
	bridges := map[string]Bridge{}
	for _, b := range t.Bridges {
		bridges[b.Name] = b
	}
	ports := map[string]*checkedPort{}
	for _, link := range t.Links {
		var bps int64
		var unit string
		if _, err := fmt.Sscanf(link.LinkSpeed, "%d%s", &bps, &unit); err != nil {
			continue // the topology was checked before
		}
		bps *= map[string]int64{"Mbit": 1_000_000, "Gbit": 1_000_000_000}[unit]
		for i, end := range link.Ends {
			node, _, _ := strings.Cut(end, "/")
			next, _, _ := strings.Cut(link.Ends[1-i], "/")
			p := &checkedPort{node: node, next: next, bps: bps, linkDelay: link.DelayNs, guard: *t.StationGuardBandNs, cycle: 1}
			if _, isBridge := bridges[node]; isBridge {
				p.guard = *t.GuardBandNs
			}
			bridge, isBridge := bridges[next]
			p.nextDelay, p.nextMinDelay, p.nextIsStation = bridge.DelayNs, bridge.MinDelayNs, !isBridge
			ports[end] = p
		}
	}
	return ports
}

// verifyStream checks the frames of a stream by themselves, and collects their passages.
func verifyStream(t *Topology, ports map[string]*checkedPort, s *Stream, a *Assignment) error {
	interval := new(big.Rat).Mul(big.NewRat(int64(s.Interval.Numerator), int64(s.Interval.Denominator)), big.NewRat(1e9, 1))
	switch {
	case !interval.IsInt() || a.Interval != s.Interval:
		return fmt.Errorf("the interval is %v", a.Interval)
	case a.TrafficClass != *s.TrafficClass:
		return fmt.Errorf("the class is %d", a.TrafficClass)
	case len(a.Frames) != s.MaxFramesPerInterval:
		return fmt.Errorf("there are %d frames in an interval instead of %d", len(a.Frames), s.MaxFramesPerInterval)
	}
	period := interval.Num().Int64()
	mayWait := slices.Contains(t.QueueingClasses, a.TrafficClass)
	tolerance, latency, last := a.ToleranceNs, int64(0), int64(-1)
	for _, frame := range a.Frames {
		offset := frame.TransmitOffsetNs
		switch {
		case len(frame.Hops) == 0 || frame.Hops[0].StartNs != offset:
			return fmt.Errorf("the transmit offset %d is not that of the talker's port", offset)
		case offset <= last:
			return fmt.Errorf("the transmit offset %d is not after that of the frame before", offset)
		case offset < s.EarliestNs || offset >= period || s.LatestNs > 0 && offset > s.LatestNs:
			return fmt.Errorf("the transmit offset %d is not allowed", offset)
		}
		last = offset
		arrivals, soonest := map[string]int64{}, map[string]int64{} // at the nodes that were reached
		waiting := map[string]bool{}
		for _, listener := range s.Listeners {
			waiting[listener] = true
		}
		for i, h := range frame.Hops {
			p := ports[h.Port]
			if p == nil {
				return fmt.Errorf("there is no port %s", h.Port)
			}
			arrival, reached := arrivals[p.node]
			earliest := soonest[p.node] - p.guard
			if i == 0 {
				arrival, earliest, reached = offset, offset, p.node == s.Talker
			}
			wire := wireTime(t, s.MaxFrameSize, p.bps)
			_, again := arrivals[p.next]
			switch {
			case !reached || i > 0 && p.node == s.Talker:
				return fmt.Errorf("port %s is not on a path from %s", h.Port, s.Talker)
			case again || p.next == s.Talker:
				return fmt.Errorf("%s is reached twice", p.next)
			case h.WireNs != wire:
				return fmt.Errorf("a frame takes %d ns at port %s instead of %d", h.WireNs, h.Port, wire)
			case h.StartNs < arrival:
				return fmt.Errorf("a frame starts at port %s %d ns before it is there", h.Port, arrival-h.StartNs)
			case !mayWait && h.StartNs-arrival >= t.GranularityNs:
				return fmt.Errorf("a frame waits at port %s for %d ns", h.Port, h.StartNs-arrival)
			case h.StartNs%t.GranularityNs != 0:
				return fmt.Errorf("the start %d at port %s is no multiple of %d ns", h.StartNs, h.Port, t.GranularityNs)
			case p.guard < tolerance:
				return fmt.Errorf("the tolerance %d exceeds the guard band of port %s", tolerance, h.Port)
			}
			end := h.StartNs + wire
			arrivals[p.next] = end + p.linkDelay + p.nextDelay
			soonest[p.next] = h.StartNs + wireTime(t, s.MinFrameSize, p.bps) + p.linkDelay + p.nextMinDelay
			if p.nextIsStation {
				if !waiting[p.next] {
					return fmt.Errorf("%s is no listener", p.next)
				}
				delete(waiting, p.next)
				latency = max(latency, end+p.linkDelay+tolerance-offset)
			}
			p.passages = append(p.passages, passage{earliest, h.StartNs, end + p.guard, period, a.TrafficClass, a.Name})
			if p.cycle%period == 0 {
				continue
			}
			p.cycle = new(big.Int).Div(new(big.Int).Mul(big.NewInt(p.cycle), big.NewInt(period)),
				new(big.Int).GCD(nil, nil, big.NewInt(p.cycle), big.NewInt(period))).Int64()
		}
		if len(waiting) > 0 {
			return fmt.Errorf("%d listeners are not reached", len(waiting))
		}
	}
	switch {
	case latency != a.WorstCaseLatencyNs:
		return fmt.Errorf("the worst-case latency is %d ns instead of %d", latency, a.WorstCaseLatencyNs)
	case latency > s.MaxLatencyNs:
		return fmt.Errorf("the worst-case latency, %d ns, exceeds %d", latency, s.MaxLatencyNs)
	}
	return nil
}

func wireTime(t *Topology, bytes, bps int64) int64 {
	if bytes < 46 {
		bytes = 46
	}
	bits := (bytes + *t.OverheadBytes) * 8
	ns := bits * 1e9 / bps
	if ns*bps < bits*1e9 {
		ns++
	}
	return ns
}

// verifyPort checks the frames of a port together, in each cycle.
func verifyPort(plan *Plan, p *checkedPort, schedule *PortSchedule) error {
	table := &schedule.Table
	cycle := big.NewRat(int64(table.AdminCycleTime.Numerator)*1e9, int64(table.AdminCycleTime.Denominator))
	if !table.GateEnabled || cycle.Cmp(big.NewRat(p.cycle, 1)) != 0 {
		return fmt.Errorf("the cycle of the gates is %v ns instead of %d, or the gates are not enabled", cycle, p.cycle)
	}
	count := int64(0)
	for _, f := range p.passages {
		count += p.cycle / f.periodNs
	}
	frames := make([]passage, 0, count)
	for _, f := range p.passages {
		for k := range p.cycle / f.periodNs {
			g := f
			g.startNs = (f.startNs + k*f.periodNs) % p.cycle
			g.earliestNs, g.closesNs = g.startNs-(f.startNs-f.earliestNs), g.startNs+f.closesNs-f.startNs
			frames = append(frames, g)
		}
	}
	sort.Slice(frames, func(i, j int) bool { return frames[i].startNs < frames[j].startNs })
	for i, f := range frames {
		next := frames[(i+1)%len(frames)]
		if i == len(frames)-1 {
			next.startNs += p.cycle
		}
		if f.closesNs > next.startNs {
			return fmt.Errorf("the windows of streams %s at %d ns and %s at %d ns overlap", f.stream, f.startNs, next.stream, next.startNs)
		}
	}
	gates, err := gateTimes(plan, table.AdminControlList.Entries, p.cycle, table)
	if err != nil {
		return err
	}
	for _, f := range frames {
		if only, _ := gates.states(f.startNs, f.closesNs); only != 1<<f.class {
			return fmt.Errorf("the gates have not only class %d open in the window of stream %s at %d ns", f.class, f.stream, f.startNs)
		}
		if _, open := gates.states(f.earliestNs, f.startNs); f.earliestNs < f.startNs && open>>f.class&1 == 1 {
			return fmt.Errorf("the gate of class %d is open while a frame of stream %s, which may arrive at %d ns, waits until %d ns", f.class, f.stream,
				f.earliestNs, f.startNs)
		}
	}
	return verifyQueues(frames, p.cycle)
}

// verifyQueues checks that frames of a class are in its queue one after the other.
func verifyQueues(frames []passage, cycle int64) error {
	for i := range frames {
		for frames[i].earliestNs < 0 {
			frames[i].earliestNs += cycle
			frames[i].closesNs += cycle
		}
	}
	sort.SliceStable(frames, func(i, j int) bool {
		return frames[i].class < frames[j].class || frames[i].class == frames[j].class && frames[i].earliestNs < frames[j].earliestNs
	})
	for from := 0; from < len(frames); {
		to := from
		for to < len(frames) && frames[to].class == frames[from].class {
			to++
		}
		queue := frames[from:to]
		for i, f := range queue {
			next := queue[(i+1)%len(queue)]
			if i == len(queue)-1 {
				next.earliestNs += cycle
			}
			if f.closesNs > next.earliestNs {
				return fmt.Errorf("a frame of stream %s may arrive at %d ns while one of stream %s is in the queue of class %d", next.stream, next.earliestNs,
					f.stream, f.class)
			}
		}
		from = to
	}
	return nil
}

// gateCycle is an executed gate control list: entry i holds its states until ends[i].
type gateCycle struct {
	entries []control.GateControlEntry
	ends    []int64
	// phase is the time of the list's beginning after the plan's base time.
	phase, cycle int64
}

func gateTimes(plan *Plan, entries []control.GateControlEntry, cycle int64, table *control.GateParameterTable) (*gateCycle, error) {
	base := func(at control.PTPTime) *big.Int {
		seconds := new(big.Int).Mul(new(big.Int).SetUint64(at.Seconds), big.NewInt(1e9))
		return seconds.Add(seconds, big.NewInt(int64(at.Nanoseconds)))
	}
	phase := new(big.Int).Sub(base(table.AdminBaseTime), base(plan.BaseTime))
	g := &gateCycle{entries: entries, cycle: cycle, phase: phase.Mod(phase, big.NewInt(cycle)).Int64()}
	sum := int64(0)
	for i, e := range entries {
		if int(e.Index) != i || e.OperationName != control.SetGateStates || e.TimeIntervalValue == 0 {
			return nil, fmt.Errorf("entry %d of the gate control list is %+v", i, e)
		}
		sum += int64(e.TimeIntervalValue)
		g.ends = append(g.ends, sum)
	}
	if sum != cycle {
		return nil, fmt.Errorf("the gate control list takes %d ns of a cycle of %d", sum, cycle)
	}
	return g, nil
}

// states returns the gates that are open during all of a time, and if no others are; and those that are open at any moment of it. The first is
// 0 if the states change.
func (g *gateCycle) states(from, to int64) (always, open uint8) {
	always = 255
	for at := from; at < to; {
		inCycle := ((at-g.phase)%g.cycle + g.cycle) % g.cycle
		i := sort.Search(len(g.ends), func(i int) bool { return g.ends[i] > inCycle })
		state := g.entries[i].GateStatesValue
		if at > from && state != always {
			always = 0
		} else if at == from {
			always = state
		}
		open |= state
		at += g.ends[i] - inCycle
	}
	return always, open
}
