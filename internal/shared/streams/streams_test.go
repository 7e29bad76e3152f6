// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

const example = "../../../examples/streams.yaml"

var update = flag.Bool("update", false, "write testdata")

func solve(t *testing.T, in *Input, running *Plan) (*Plan, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return Solve(ctx, in, running)
}

func mustSolve(t *testing.T, in *Input, running *Plan) *Plan {
	t.Helper()
	plan, err := solve(t, in, running)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// randomInput returns a tree of bridges with stations, and streams between them.
func randomInput(seed uint64, stations, streams int) *Input {
	random := rand.New(rand.NewPCG(seed, 2))
	guard := int64(random.IntN(3) * 500)
	topology := &Topology{GuardBandNs: &guard, StationGuardBandNs: &guard, GranularityNs: []int64{1, 8, 100}[random.IntN(3)], SupportedListMax: 4096}
	if random.IntN(2) == 0 {
		topology.QueueingClasses = []uint8{6}
	}
	bridges := 1 + stations/4
	for b := range bridges {
		delayNs := random.Int64N(4000)
		topology.Bridges = append(topology.Bridges, Bridge{Name: fmt.Sprintf("sw%d", b), DelayNs: delayNs, MinDelayNs: random.Int64N(delayNs + 1)})
		if b > 0 {
			ends := []string{fmt.Sprintf("sw%d/up", b), fmt.Sprintf("sw%d/down%d", random.IntN(b), b)}
			topology.Links = append(topology.Links, Link{Ends: ends, DelayNs: int64(random.IntN(500))})
		}
	}
	for n := range stations {
		topology.Links = append(topology.Links, Link{Ends: []string{fmt.Sprintf("n%d", n), fmt.Sprintf("sw%d/p%d", random.IntN(bridges), n)},
			LinkSpeed: []string{"1Gbit", "100Mbit", "2500Mbit"}[random.IntN(3)]})
	}
	in := &Input{Topology: topology}
	for i := range streams {
		order := random.Perm(stations)
		class := uint8(6 + random.IntN(2))
		s := Stream{Name: fmt.Sprintf("s%d", i), Talker: fmt.Sprintf("n%d", order[0]), TrafficClass: &class,
			Interval: IntervalOf([]int64{1_000_000, 2_000_000, 4_000_000}[random.IntN(3)]), MaxFrameSize: int64(50 + random.IntN(300)),
			MaxFramesPerInterval: 1 + random.IntN(2)}
		s.MinFrameSize = 1 + random.Int64N(s.MaxFrameSize)
		for _, n := range order[1 : 2+random.IntN(2)] {
			s.Listeners = append(s.Listeners, fmt.Sprintf("n%d", n))
		}
		in.Streams = append(in.Streams, s)
	}
	return in
}

// copyOf copies a plan.
func copyOf(t *testing.T, plan *Plan) *Plan {
	t.Helper()
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	var copied Plan
	if err := json.Unmarshal(text, &copied); err != nil {
		t.Fatal(err)
	}
	return &copied
}

// TestMutationsFail solves random cases and changes one number of each plan; the verifier, which Solve has called, must reject all of them.
func TestMutationsFail(t *testing.T) {
	solved := 0
	for seed := range uint64(80) {
		in := randomInput(seed, 4+int(seed%12), 5+int(seed%40))
		plan, err := solve(t, in, nil)
		if err != nil {
			var noPlace *NoPlaceError
			if !errors.As(err, &noPlace) {
				t.Errorf("seed %d: %v", seed, err)
			}
			continue
		}
		solved++
		random := rand.New(rand.NewPCG(seed, 3))
		for name, mutate := range map[string]func(*Plan) bool{
			"a hop starts earlier": func(p *Plan) bool {
				hop := &anyFrame(random, p).Hops[1]
				hop.StartNs -= 200
				return true
			},
			"a frame takes the place of another": func(p *Plan) bool {
				a, b := &p.Streams[0], &p.Streams[random.IntN(len(p.Streams))]
				if in.Streams[0].Talker != in.Streams[slices.Index(p.names(), b.Name)].Talker || a.Name == b.Name {
					return false
				}
				move(a, b.Frames[0].TransmitOffsetNs-a.Frames[0].TransmitOffsetNs)
				return true
			},
			"a frame moves and the gates do not": func(p *Plan) bool {
				move(&p.Streams[random.IntN(len(p.Streams))], 800_000)
				return true
			},
			"another gate opens": func(p *Plan) bool {
				entries := p.Ports[random.IntN(len(p.Ports))].Table.AdminControlList.Entries
				entries[0].GateStatesValue |= 1
				return true
			},
			"an entry is longer": func(p *Plan) bool {
				entries := p.Ports[random.IntN(len(p.Ports))].Table.AdminControlList.Entries
				entries[random.IntN(len(entries))].TimeIntervalValue += 100
				return true
			},
			"a list starts later": func(p *Plan) bool {
				table := &p.Ports[random.IntN(len(p.Ports))].Table
				if len(table.AdminControlList.Entries) == 1 {
					return false
				}
				table.AdminBaseTime = addNs(table.AdminBaseTime, 100)
				return true
			},
			"a frame leaves its path": func(p *Plan) bool {
				frame := anyFrame(random, p)
				frame.Hops = frame.Hops[:len(frame.Hops)-1]
				return true
			},
			"a latency is smaller": func(p *Plan) bool {
				p.Streams[random.IntN(len(p.Streams))].WorstCaseLatencyNs--
				return true
			},
			"a tolerance is larger": func(p *Plan) bool {
				p.Streams[random.IntN(len(p.Streams))].ToleranceNs += 10_000
				return true
			},
			"a stream is missing": func(p *Plan) bool {
				p.Streams = p.Streams[1:]
				return true
			},
		} {
			changed := copyOf(t, plan)
			if mutate(changed) && Verify(in, changed) == nil {
				t.Errorf("seed %d: the verifier accepts a plan after %q", seed, name)
			}
		}
	}
	if solved < 60 {
		t.Errorf("%d of 80 cases were solved", solved)
	}
}

func (p *Plan) names() (names []string) {
	for i := range p.Streams {
		names = append(names, p.Streams[i].Name)
	}
	return names
}

func anyFrame(random *rand.Rand, p *Plan) *Frame {
	a := &p.Streams[random.IntN(len(p.Streams))]
	return &a.Frames[random.IntN(len(a.Frames))]
}

// move moves all frames of a stream.
func move(a *Assignment, byNs int64) {
	for i := range a.Frames {
		a.Frames[i].TransmitOffsetNs += byNs
		for k := range a.Frames[i].Hops {
			a.Frames[i].Hops[k].StartNs += byNs
		}
	}
}

// crossing has two streams whose bursts meet at a bridge's port; only class 6 may wait there.
func crossing(class uint8) *Input {
	zero := int64(0)
	in := &Input{Topology: &Topology{GuardBandNs: &zero, StationGuardBandNs: &zero, OverheadBytes: &zero, QueueingClasses: []uint8{6}}}
	for i, talker := range []string{"a", "b"} {
		in.Streams = append(in.Streams, Stream{Name: talker, Talker: talker, Listeners: []string{"c"}, Interval: IntervalOf(100_000),
			MaxFrameSize: 1250, LatestNs: 1000, TrafficClass: &[]uint8{class, class - uint8(i)}[i]})
	}
	return in
}

func TestFramesWaitIfTheirClassMay(t *testing.T) {
	in := crossing(7) // the classes are 7 and 6
	plan := mustSolve(t, in, nil)
	hops := plan.Streams[1].Frames[0].Hops
	if wait := hops[1].StartNs - hops[0].StartNs - hops[0].WireNs - starLinkDelayNs - starBridgeDelayNs; wait <= 0 {
		t.Errorf("the frame of class 6 waits for %d ns", wait)
	}
	// With a gap before its window, the frame waits while the gates of other classes are open.
	later := copyOf(t, plan)
	later.Streams[1].Frames[0].Hops[1].StartNs += 5000
	later.Streams[1].WorstCaseLatencyNs += 5000
	list := &later.Ports[slices.IndexFunc(later.Ports, func(p PortSchedule) bool { return p.Port == "bridge/c" })].Table.AdminControlList
	gap := list.Entries[2]
	gap.TimeIntervalValue = 5000
	list.Entries[2].TimeIntervalValue -= 5000
	list.Entries = slices.Insert(list.Entries, 1, gap)
	for i := range list.Entries {
		list.Entries[i].Index = uint32(i)
	}
	if err := Verify(in, later); err != nil {
		t.Errorf("the verifier rejects a gap: %v", err)
	}
	list.Entries[1].GateStatesValue |= 1 << 6
	const want = "is open while a frame of stream b, which may arrive at 468 ns, waits until 30100 ns"
	if err := Verify(in, later); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the verifier reports %v for a gate that is open too early", err)
	}
	var noPlace *NoPlaceError
	in = crossing(7)
	in.Topology.QueueingClasses = nil
	if _, err := solve(t, in, nil); !errors.As(err, &noPlace) {
		t.Errorf("without waiting: %v", err)
	}
	// The other stream uses the port for 10 % of the time, and its queue for 10 µs and 14.6 µs before.
	in = crossing(7)
	in.Topology.QueueingClasses = nil
	in.Streams[1].TrafficClass = in.Streams[0].TrafficClass
	if _, err := solve(t, in, nil); !errors.As(err, &noPlace) || noPlace.BusyPercent != 24 {
		t.Errorf("in one class: %v", err)
	}
}

// star has streams from each station to another one.
func star(stations, streams int) *Input {
	random := rand.New(rand.NewPCG(7, 7))
	in := &Input{}
	for i := range streams {
		talker := i % stations
		listener := (talker + 1 + random.IntN(stations-1)) % stations
		in.Streams = append(in.Streams, Stream{Name: fmt.Sprintf("s%d", i), Talker: fmt.Sprintf("n%d", talker), MaxFrameSize: int64(64 + random.IntN(200)),
			Listeners: []string{fmt.Sprintf("n%d", listener)}, Interval: IntervalOf([]int64{10e6, 20e6, 40e6}[random.IntN(3)])})
	}
	return in
}

// TestAddedStreamMovesNone adds streams to a thousand running ones.
func TestAddedStreamMovesNone(t *testing.T) {
	in := star(100, 1050)
	added := in.Streams[1000:]
	in.Streams = in.Streams[:1000]
	plan := mustSolve(t, in, nil)
	for i := range added {
		in.Streams = append(in.Streams, added[i])
		next := mustSolve(t, in, plan)
		for k := range plan.Streams {
			if next.Streams[k].Frames[0].Hops[1] != plan.Streams[k].Frames[0].Hops[1] {
				t.Fatalf("stream %s moved", plan.Streams[k].Name)
			}
		}
		at, err := NextStart(plan, next, control.PTPTime{Seconds: 5, Nanoseconds: 1})
		if err != nil || at != (control.PTPTime{Seconds: 5, Nanoseconds: 40e6}) {
			t.Fatalf("the next plan starts at %v, %v", at, err)
		}
		plan = next
	}
}

// BenchmarkAddStream adds a stream to a thousand running ones between a hundred stations; with -benchtime 200x it reports the median and the
// 99th percentile of 200 additions, in elapsed time and, which does not depend on the load, in processor time with that of the collector.
func BenchmarkAddStream(b *testing.B) {
	in := star(100, 1000+b.N)
	added := in.Streams[1000:]
	in.Streams = in.Streams[:1000:1000]
	running, err := Solve(b.Context(), in, nil)
	if err != nil {
		b.Fatal(err)
	}
	usedMs := func() float64 {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			b.Fatal(err)
		}
		return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e6
	}
	var elapsedMs, processorMs []float64
	b.ResetTimer()
	for i := range b.N {
		in.Streams = append(in.Streams[:1000:1000], added[i])
		began, used := time.Now(), usedMs()
		if _, err := Solve(b.Context(), in, running); err != nil {
			b.Fatal(err)
		}
		elapsedMs, processorMs = append(elapsedMs, float64(time.Since(began).Microseconds())/1000), append(processorMs, usedMs()-used)
	}
	for name, values := range map[string][]float64{"ms": elapsedMs, "cpu-ms": processorMs} {
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], "median-"+name)
		b.ReportMetric(values[len(values)*99/100], "p99-"+name)
	}
}

// TestRunningPlanOfAnotherInput changes the input of a running plan: unchanged streams keep their place or have a message.
func TestRunningPlanOfAnotherInput(t *testing.T) {
	bursts := func() *Input {
		in := star(10, 50)
		for i := range in.Streams {
			in.Streams[i].MaxFramesPerInterval = 3
		}
		return in
	}
	running := mustSolve(t, bursts(), nil)
	for name, test := range map[string]struct {
		change func(in *Input)
		want   string // "" if there is a plan
	}{
		"larger guard band": {func(in *Input) { *in.Topology.GuardBandNs += 5000 },
			"streams[5]: stream s5 of the running plan no longer fits at port bridge/n9: windows of its own frames, or their times in the queue, overlap; undo"},
		"larger guard band of stations": {func(in *Input) { *in.Topology.StationGuardBandNs += 5000 },
			"stream s0 of the running plan no longer fits at port n0: windows of its own frames, or their"},
		"slower bridge":      {func(in *Input) { in.Topology.Bridges[0].DelayNs += 1000 }, "its frames arrive up to 1000 ns after their window begins"},
		"faster bridge":      {func(in *Input) { in.Topology.Bridges[0].DelayNs -= 1000 }, "topology.queueing-classes does not have class 7"},
		"coarser ticks":      {func(in *Input) { in.Topology.GranularityNs = 1000 }, "no multiple of topology.tick-granularity"},
		"smaller guard band": {func(in *Input) { *in.Topology.GuardBandNs -= 1000 }, ""},
		"other base time": {func(in *Input) { in.BaseTime = control.PTPTime{Nanoseconds: 5e6} },
			"base-time: is 0 s and 5000000 ns, and that of the running plan 0 s and 0 ns: the difference is no multiple of the interval of stream s0"},
		"later base time":   {func(in *Input) { in.BaseTime = control.PTPTime{Seconds: 1, Nanoseconds: 40e6} }, ""},
		"streams changed":   {func(in *Input) { in.Streams[0].EarliestNs, in.Streams[1].MaxFrameSize = 500_000, 1000 }, ""},
		"stream removed":    {func(in *Input) { in.Streams = in.Streams[1:] }, ""},
		"other max-latency": {func(in *Input) { in.Streams[0].MaxLatencyNs = 100_000 }, ""},
	} {
		in := bursts()
		in.Topology = &Topology{}
		in.Topology.Bridges, in.Topology.Links = Star(in.Streams)
		in.Topology.setDefaults()
		test.change(in)
		plan, err := solve(t, in, running)
		if test.want != "" {
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		last := len(plan.Streams) - 1
		if !slices.EqualFunc(plan.Streams[last].Frames, running.Streams[49].Frames, func(a, b Frame) bool { return slices.Equal(a.Hops, b.Hops) }) {
			t.Errorf("%s: stream %s has moved", name, plan.Streams[last].Name)
		}
	}
	damaged := copyOf(t, running)
	damaged.BaseTime.Nanoseconds = 2e9
	if _, err := solve(t, bursts(), damaged); err == nil || !strings.Contains(err.Error(), "is no time") {
		t.Errorf("got %v", err)
	}
	damaged = copyOf(t, running)
	damaged.Streams[1].Frames = damaged.Streams[0].Frames // another path
	mustSolve(t, bursts(), damaged)
}

func TestTenThousandStreams(t *testing.T) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	in := star(100, 10_000)
	in.Topology = &Topology{SupportedListMax: 1024}
	if _, err := Solve(ctx, in, nil); err != nil {
		t.Fatal(err)
	}
	t.Logf("10,000 streams in %v", time.Since(began))
}

func readExample(t *testing.T) *Input {
	t.Helper()
	in, err := Read(example, "")
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestDrawing(t *testing.T) {
	in := readExample(t)
	var drawing bytes.Buffer
	if err := mustSolve(t, in, nil).WriteSVG(&drawing, in); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/streams.svg", drawing.Bytes())
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; look at the new one and run go test ./internal/shared/streams -update", path)
	}
}

// TestBadInput changes a text of the example each time.
func TestBadInput(t *testing.T) {
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	const oneMillisecond = "interval: {numerator: 1, denominator: 1000}\n    max-frame-size: 80"
	for name, test := range map[string]struct{ old, new, want string }{
		"no talker": {"talker: axis-1", "talker: ''",
			"streams[1].talker: is missing: stream actual-1 has no talker; name the station that sends it"},
		"no listener":     {"listeners: [vision]", "listeners: []", "streams[3].listeners: is missing: stream images has no listener"},
		"unknown station": {"talker: camera", "talker: webcam", "needs station webcam, which has no link in the topology; add the link to topology.links"},
		"bridge talks":    {"talker: camera", "talker: cell", "needs station cell, which is a bridge"},
		"talker listens":  {"listeners: [vision]", "listeners: [camera]", "of stream images has its talker, camera"},
		"no interval":     {oneMillisecond, "max-frame-size: 80", "streams[2].interval: of stream actual-2 is 0/0 s"},
		"odd interval":    {oneMillisecond, "interval: {numerator: 1, denominator: 7}\n    max-frame-size: 80", "must be a whole number of nanoseconds"},
		"long interval": {oneMillisecond, "interval: {numerator: 5, denominator: 1}\n    max-frame-size: 80",
			"bridges execute cycles of at most 1000000000 ns"},
		"short interval": {"interval: {numerator: 1, denominator: 2000}\n    max-frame-size: 80",
			"interval: {numerator: 1, denominator: 50000}\n    max-frame-size: 80",
			"occupy axis-1 for 20976 ns with guard bands"},
		"no common phase": {oneMillisecond, "interval: {numerator: 999, denominator: 1000000}\n    max-frame-size: 80",
			"on hall/p1 they meet in each phase"},
		"hyperperiod": {oneMillisecond, "interval: {numerator: 1000033, denominator: 1000000000}\n    max-frame-size: 80",
			"the cycle would exceed 1000000000 ns"},
		"frame over MTU": {"max-frame-size: 1500", "max-frame-size: 1501", "of stream images is 1501 bytes; must be from 1 to the MTU, 1500"},
		"latency": {"max-latency: 150000 # ns", "max-latency: 9000",
			"of stream setpoints is 9000 ns, and its frames take 25952 ns to the last listener"},
		"overload": {"max-frames-per-interval: 3", "max-frames-per-interval: 31",
			"of stream images is 1000000 ns, and its frames occupy camera for 1002416 ns"},
		"min-frame-size": {"max-frame-size: 1500", "max-frame-size: 1500\n    min-frame-size: 1501",
			"of stream images is 1501 bytes; must be from 1 to max-frame-size"},
		"min-delay": {"delay: 4000,", "delay: 4000, min-delay: 4001,", "topology.bridges[0].min-delay: is 4001; must be from 0 to delay, 4000 ns"},
		"early frames": {"guard-band: 2000 ", "guard-band: 249000 ",
			"of stream setpoints is 500000 ns, and its frames, which may arrive early, occupy the queue of hall/p3 for"},
		"class":     {"traffic-class: 6", "traffic-class: 8", "must be from 0 to 7"},
		"same name": {"name: actual-2", "name: actual-1", `is "actual-1", as of a stream before it`},
		"offsets": {"earliest-transmit-offset: 100000", "earliest-transmit-offset: 1000000",
			"must be in this order within its interval of 1000000 ns"},
		"missing port": {"[vision, cell/p4]", "[vision, cell/p5]",
			"topology.links[5].ends: has cell/p5, and bridge cell has no such port; its ports are p1, p2, p3, p4"},
		"port used twice": {"[vision, cell/p4]", "[vision, cell/p3]", "has cell/p3, which another link uses; a port has one link"},
		"missing bridge":  {"[vision, cell/p4]", "[vision, roof/p4]", "has roof/p4, and topology.bridges has no bridge roof"},
		"no port":         {"[vision, cell/p4]", "[vision, cell]", "has the bridge cell without a port; write cell/PORT"},
		"two uplinks":     {"[vision, cell/p4]", "[camera, cell/p4]", "has camera, which another link uses; a station has one uplink"},
		"loop":            {"[vision, cell/p4]", "[hall/p4, cell/p4]", "closes a loop between hall/p4 and cell/p4, so paths are ambiguous"},
		"two networks": {"name: actual-2\n    talker: axis-2", "name: actual-2\n    network: b\n    talker: camera",
			"an uplink executes the schedule of one network"},
		"link speed":    {"link-speed: 100Mbit", "link-speed: fast", `topology.links[4].link-speed: "fast" is no link speed`},
		"no connection": {"- {ends: [hall/p3, cell/p1], delay: 250}", "", "there is no path from plc to all of axis-1, axis-2; add the missing link"},
		"unknown field": {"max-latency: 150000 # ns", "max-delay: 1", "streams.yaml:29: cannot be read: there is no field max-delay"},
		"forwarding":    {"topology:\n", "topology:\n  forwarding: flooding\n", "must be spanning-tree or explicit-paths"},
		"guard band":    {"guard-band: 2000 ", "guard-band: -1 ", "topology.guard-band: is -1"},
		"list of a bridge": {"topology:\n", "topology:\n  supported-list-max: 2\n",
			"entries in its gate control list; it has at most 2 (topology.supported-list-max)"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(string(text), test.old, test.new, 1)
			if name == "loop" {
				changed = strings.Replace(changed, "ports: [p1, p2, p3]}", "ports: [p1, p2, p3, p4]}", 1)
			}
			if changed == string(text) {
				t.Fatal("nothing was replaced")
			}
			path := filepath.Join(t.TempDir(), "streams.yaml")
			if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
			in, err := Read(path, "")
			if err == nil {
				_, err = solve(t, in, nil)
			}
			if err = Locate(err, path, ""); err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), path+":") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestIntervalsWithoutCommonCycle has streams with two paths around a ring, and intervals that would need very many windows.
func TestIntervalsWithoutCommonCycle(t *testing.T) {
	ring := func(intervals ...int64) *Input {
		in := &Input{Topology: &Topology{Forwarding: ExplicitPaths}}
		for i := range 4 {
			in.Topology.Bridges = append(in.Topology.Bridges, Bridge{Name: fmt.Sprintf("sw%d", i)})
			in.Topology.Links = append(in.Topology.Links, Link{Ends: []string{fmt.Sprintf("sw%d/right", i), fmt.Sprintf("sw%d/left", (i+1)%4)}},
				Link{Ends: []string{fmt.Sprintf("n%d", i), fmt.Sprintf("sw%d/n%d", i, i)}})
		}
		for i, ns := range intervals {
			in.Streams = append(in.Streams, Stream{Name: fmt.Sprintf("s%d", i), Talker: fmt.Sprintf("n%d", i%2), Listeners: []string{fmt.Sprintf("n%d", 2+i%2)},
				Interval: IntervalOf(ns), MaxFrameSize: 100})
		}
		return in
	}
	for name, test := range map[string]struct {
		in   *Input
		want string
	}{
		"prime": {ring(999_999_937, 1e9), "streams[1].interval: of stream s1 is 1000000000 ns: with the intervals of other streams that may use port " +
			"sw1/right, such as 999999937 ns of stream s0, the cycle would exceed 1000000000 ns (topology.supported-cycle-max); use intervals that divide each other"},
		"common divisor of some microseconds": {ring(999_975_000, 1e9, 1e9), "such as 999975000 ns of stream s0"},
		"longest cycle":                       {ring(250_000_000, 999_975_000), "such as 250000000 ns of stream s0"},
		"windows": {ring(25_000, 1e9, 25_000, 25_000), "streams[0].interval: of stream s0 is 25000 ns, and that of stream s1 1000000000 ns: port sw1/right may " +
			"have 120001 windows in its cycle of 1000000000 ns, with 4 streams; must be at most 100000: use longer intervals"},
		"two paths": {ring(1_000_000, 2_000_000), ""},
	} {
		began := time.Now()
		if _, err := solve(t, test.in, nil); test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v", name, err)
		}
		if elapsed := time.Since(began); elapsed > 2*time.Second {
			t.Errorf("%s: took %v", name, elapsed)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Solve(ctx, ring(1_000_000), nil); err == nil || !strings.Contains(err.Error(), "raise --time-limit") {
		t.Errorf("got %v", err)
	}
}

// TestTimeline compares the merged slots of a timeline with each microsecond of it.
func TestTimeline(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	for range 200 {
		line := &timeline{lengthNs: 60}
		var busy [60]bool
		for stream := range 4 {
			interval, start, occupy := []int64{10, 12, 20, 60}[random.IntN(4)], random.Int64N(100), 1+random.Int64N(12)
			line.add(slot{startNs: start, endNs: start + occupy, stream: stream}, interval)
			for k := range int64(600) {
				for ns := range occupy {
					busy[(start+k*interval+ns)%60] = true
				}
			}
		}
		if !slices.IsSortedFunc(line.slots, func(a, b slot) int { return int(a.startNs - b.startNs) }) {
			t.Fatalf("not sorted: %v", line.slots)
		}
		for ns := range int64(60) {
			overlaps := false
			line.overlaps(ns, 1, func(*slot, int64) bool {
				overlaps = true
				return false
			})
			if overlaps != busy[ns] {
				t.Fatalf("%d is busy: %v in %v", ns, overlaps, line.slots)
			}
		}
	}
}

func TestOverloadedPort(t *testing.T) {
	in := star(3, 3)
	for i := range in.Streams {
		in.Streams[i].Listeners = []string{"sink"}
		in.Streams[i].MaxFrameSize = 1500
		in.Streams[i].Interval = IntervalOf(36_000)
	}
	const want = "port bridge/sink would be used more than 100 % of the time by 3 streams (s0, s1, s2)"
	if _, err := solve(t, in, nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}
