// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// moment is an event of the simulation: a frame is in the queue of a port, or the port looks at its queues if there is no frame.
type moment struct {
	atNs  int64
	port  string
	frame *simulated
	hop   int
}

type moments []moment

func (m moments) Len() int           { return len(m) }
func (m moments) Less(i, j int) bool { return m[i].atNs < m[j].atNs }
func (m moments) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *moments) Push(x any)        { *m = append(*m, x.(moment)) }
func (m *moments) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

// simulated is a frame of an interval that begins at roundNs.
type simulated struct {
	stream  *Assignment
	hops    []Hop
	size    int64
	roundNs int64
}

type queued struct {
	frame *simulated
	hop   int
}

type egress struct {
	node, next   string
	bps, delayNs int64
	guardNs      int64
	table        *control.GateParameterTable
	queues       [control.TrafficClasses][]queued
	busyUntilNs  int64
	minNs, maxNs int64 // delay of the next bridge
}

// gates returns the open gates at a time of the port's clock, and when they change.
func (e *egress) gates(atNs int64) (open uint8, untilNs int64) {
	cycleNs := int64(e.table.AdminCycleTime.Numerator) * 1e9 / int64(e.table.AdminCycleTime.Denominator)
	baseNs := int64(e.table.AdminBaseTime.Seconds)*1e9 + int64(e.table.AdminBaseTime.Nanoseconds)
	untilNs = atNs - modulo(atNs-baseNs, cycleNs)
	for k := 0; ; k++ {
		entry := e.table.AdminControlList.Entries[k%len(e.table.AdminControlList.Entries)]
		if untilNs += int64(entry.TimeIntervalValue); untilNs > atNs {
			return entry.GateStatesValue, untilNs
		}
	}
}

// simulate runs the frames of some intervals through queues and gates (8.6.8): frames of any size in the bounds, bridges of any delay in the
// bounds, and clocks that differ by up to the guard band. Each frame must begin within the guard band after its planned start, at each port.
func simulate(in *Input, plan *Plan, random *rand.Rand, intervals int) error {
	ports, clocks := map[string]*egress{}, map[string]int64{}
	bridges := map[string]Bridge{}
	for _, b := range in.Topology.Bridges {
		bridges[b.Name] = b
	}
	extreme := func(low, high int64) int64 { // most often one of both
		return []int64{low, high, low + random.Int64N(high-low+1)}[random.IntN(3)]
	}
	for _, link := range in.Topology.Links {
		for i, end := range link.Ends {
			node, _, isBridge := strings.Cut(end, "/")
			next, _, _ := strings.Cut(link.Ends[1-i], "/")
			p := &egress{node: node, next: next, delayNs: link.DelayNs, guardNs: *in.Topology.StationGuardBandNs, busyUntilNs: math.MinInt64,
				minNs: bridges[next].MinDelayNs, maxNs: bridges[next].DelayNs,
				bps: map[string]int64{"1Gbit": 1e9, "100Mbit": 1e8, "2500Mbit": 25e8}[link.LinkSpeed]}
			if isBridge {
				p.guardNs = *in.Topology.GuardBandNs
			}
			ports[end] = p
			clocks[node] = extreme(-*in.Topology.GuardBandNs/2, *in.Topology.GuardBandNs/2)
		}
	}
	for i := range plan.Ports {
		ports[plan.Ports[i].Port].table = &plan.Ports[i].Table
	}
	var queue moments
	frames := 0
	for i := range plan.Streams {
		a, s := &plan.Streams[i], &in.Streams[i]
		for round := range intervals {
			for _, f := range a.Frames {
				frame := &simulated{a, f.Hops, extreme(s.MinFrameSize, s.MaxFrameSize), int64(round) * a.Interval.Nanoseconds()}
				at := frame.roundNs + f.TransmitOffsetNs - clocks[s.Talker]
				heap.Push(&queue, moment{at, f.Hops[0].Port, frame, 0})
				frames += len(f.Hops)
			}
		}
	}
	for queue.Len() > 0 {
		m := heap.Pop(&queue).(moment)
		p := ports[m.port]
		if m.frame != nil {
			class := m.frame.stream.TrafficClass
			p.queues[class] = append(p.queues[class], queued{m.frame, m.hop})
		}
		if m.atNs < p.busyUntilNs {
			continue // the port looks again then
		}
		local := m.atNs + clocks[p.node]
		open, untilNs := p.gates(local)
		for class := len(p.queues) - 1; class >= 0; class-- {
			if len(p.queues[class]) == 0 {
				continue
			}
			first := p.queues[class][0]
			wireNs := ((max(first.frame.size, 46)+*in.Topology.OverheadBytes)*8e9 + p.bps - 1) / p.bps
			endNs := untilNs
			for state := open; state>>class&1 == 1 && endNs < local+wireNs; {
				var changeNs int64
				if state, changeNs = p.gates(endNs); state>>class&1 == 1 {
					endNs = changeNs
				}
			}
			if open>>class&1 == 0 || endNs < local+wireNs {
				heap.Push(&queue, moment{atNs: m.atNs + untilNs - local, port: m.port})
				continue
			}
			hop := first.frame.hops[first.hop]
			if lateNs := local - first.frame.roundNs - hop.StartNs; lateNs < 0 || lateNs > p.guardNs {
				return fmt.Errorf("a frame of stream %s with %d bytes starts at port %s %d ns after its planned start %d", first.frame.stream.Name,
					first.frame.size, m.port, lateNs, hop.StartNs)
			}
			frames--
			p.queues[class] = p.queues[class][1:]
			p.busyUntilNs = m.atNs + wireNs
			heap.Push(&queue, moment{atNs: p.busyUntilNs, port: m.port})
			for k, next := range first.frame.hops {
				if node, _, _ := strings.Cut(next.Port, "/"); k > first.hop && node == p.next {
					heap.Push(&queue, moment{p.busyUntilNs + p.delayNs + extreme(p.minNs, p.maxNs), next.Port, first.frame, k})
				}
			}
			break
		}
	}
	if frames != 0 {
		return fmt.Errorf("%d frames were not sent", frames)
	}
	return nil
}

// TestEarlyFramesKeepTheirWindows simulates plans of random cases.
func TestEarlyFramesKeepTheirWindows(t *testing.T) {
	solved := 0
	for seed := range uint64(60) {
		in := randomInput(seed, 4+int(seed%12), 10+int(seed%50))
		plan, err := solve(t, in, nil)
		if err != nil {
			continue
		}
		solved++
		for round := range uint64(5) {
			if err := simulate(in, plan, rand.New(rand.NewPCG(seed, round)), 4); err != nil {
				t.Errorf("seed %d: %v", seed, err)
				break
			}
		}
	}
	if solved < 40 {
		t.Errorf("%d of 60 cases were solved", solved)
	}
}

// TestVerifierRejectsEarlyFrames verifies plans of constant frames and bridges against an input in which they vary.
func TestVerifierRejectsEarlyFrames(t *testing.T) {
	in := star(4, 40)
	for i := range in.Streams {
		in.Streams[i].MaxFrameSize, in.Streams[i].MinFrameSize = 1000, 1000
	}
	in.Topology = &Topology{SupportedListMax: 1024}
	in.Topology.Bridges, in.Topology.Links = Star(in.Streams)
	in.Topology.Bridges[0].MinDelayNs = starBridgeDelayNs
	plan := mustSolve(t, in, nil)
	random := rand.New(rand.NewPCG(1, 1))
	if err := simulate(in, plan, random, 4); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(){
		"short frames":   func() { in.Streams[0].MinFrameSize, in.Streams[1].MinFrameSize, in.Streams[2].MinFrameSize = 1, 1, 1 },
		"a fast bridge":  func() { in.Topology.Bridges[0].MinDelayNs = 0 },
		"a larger guard": func() { *in.Topology.GuardBandNs += 100 },
	} {
		change()
		if err := Verify(in, plan); err == nil || name != "a larger guard" && !strings.Contains(err.Error(), "may arrive at") {
			t.Errorf("%s: the verifier reports %v", name, err)
		}
		in.Topology.Bridges[0].MinDelayNs, *in.Topology.GuardBandNs = starBridgeDelayNs, defaultGuardBandNs
		for i := range in.Streams {
			in.Streams[i].MinFrameSize = 1000
		}
	}
}
