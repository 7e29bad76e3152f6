// SPDX-License-Identifier: Apache-2.0

//go:build bench

package netns_test

import (
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
	"github.com/kubernetsn/kubernetsn/internal/testlab/iperf3"
	"github.com/kubernetsn/kubernetsn/internal/testlab/ping"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/wiretap"
)

// Where programs run, as in `ktsn demo`: talkers with ktsnd, the listener, which polls, on another processor.
const (
	senderCPU   = "0"
	listenerCPU = "1"
	// rounds is the number of turns of each path.
	rounds = 5
	// warmUp messages of a run are not measured.
	warmUp = 50
)

// daemonOptions are the options of `ktsn demo`.
var daemonOptions = []string{"--cpu", senderCPU, "--fifo", "50", "--log-level", "warning"}

// TestCaptureFigures measures the cost of capture without libktsn (make capture). No figure fails the test.
func TestCaptureFigures(t *testing.T) {
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		t.Logf("figure: load average at the beginning %s", load)
	}
	t.Run("a static talker", benchTalkers)
	t.Run("idle", benchIdle)
	t.Run("all traffic", benchAll)
	t.Run("a schedule with saturating TCP", benchSchedule)
	t.Run("a captured flood", benchFlood)
}

// pathTiming holds the times and losses of the messages of one path.
type pathTiming struct {
	errors, latencies []int64
	sent, lost, early int
	// late counts messages that were handed over after their times.
	late int
}

func (m *pathTiming) add(other *pathTiming) {
	m.errors, m.latencies = append(m.errors, other.errors...), append(m.latencies, other.latencies...)
	m.sent, m.lost, m.early, m.late = m.sent+other.sent, m.lost+other.lost, m.early+other.early, m.late+other.late
}

// percentiles returns the median and the 99th percentile in microseconds.
func percentiles(sample []int64) (p50, p99 float64) {
	sorted := slices.Sorted(slices.Values(sample))
	return float64(stats.Percentile(sorted, stats.P50)) / 1e3, float64(stats.Percentile(sorted, stats.P99)) / 1e3
}

// pollingListener returns tsnperf's listener on its own CPU.
func pollingListener(t *testing.T, pod *topology.Namespace, at netip.AddrPort, count int) *flow {
	t.Helper()
	dir := t.TempDir()
	f := &flow{talkerFile: dir + "/talker.csv", listenerFile: dir + "/listener.csv"}
	command := exec.Command(program(t, "tsnperf"), "listener", "--poll", "--quiet", "--csv", f.listenerFile, "--bind", at.String(),
		"--count", strconv.Itoa(count), "--cpu", listenerCPU, "--first-timeout", seconds(patience), "--idle-timeout", "2s")
	f.listener = start(t, pod, "listener", command)
	time.Sleep(100 * time.Millisecond) // it polls and cannot report that it has started
	return f
}

// preloadedTalker returns tsnperf's talker with libktsn.
func (l *lab) preloadedTalker(t *testing.T, file string, options ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command(program(t, "tsnperf"), append([]string{"talker", "--quiet", "--clock", "tai", "--csv", file,
		"--to", atPodB.String()}, options...)...)
	command.Env = l.preloaded(t)
	return command
}

// measure sends from a talker of pod a and traces its messages.
func (c *captured) measure(t *testing.T, talker talkerStarter, count int, options ...string) *pathTiming {
	t.Helper()
	following := c.followPodA(t)
	f := c.runTalker(t, talker, count, options...)
	return f.timing(following.stop())
}

// talkerStarter returns the command of a talker with its file and further options.
type talkerStarter = func(*testing.T, string, ...string) *exec.Cmd

// runTalker sends from a talker of pod a.
func (c *captured) runTalker(t *testing.T, talker talkerStarter, count int, options ...string) *flow {
	t.Helper()
	f := pollingListener(t, c.PodB, atPodB, count)
	f.talker = start(t, c.PodA, "talker", talker(t, f.talkerFile, append([]string{"--count", strconv.Itoa(count), "--cpu", senderCPU}, options...)...))
	f.finish(t)
	return f
}

// timing combines the reports of talker, ktsnd and listener.
func (f *flow) timing(traced []control.TracedMessage) *pathTiming {
	m := &pathTiming{}
	counted := map[int64]bool{}
	for _, message := range f.sent[warmUp:] {
		counted[message.Txtime] = true
	}
	for _, message := range traced {
		if !counted[message.DueTAI] || !message.Sent() {
			continue
		}
		if message.Outcome == "late-taken" {
			m.late++
			continue
		}
		m.errors = append(m.errors, message.EndedTAI-message.DueTAI)
	}
	m.sent = len(counted)
	m.lost = m.sent
	for _, message := range f.received {
		if !counted[message.Txtime] {
			continue
		}
		m.lost--
		m.latencies = append(m.latencies, message.Arrival-message.Txtime)
		if message.Arrival < message.Txtime {
			m.early++
		}
	}
	return m
}

// staticTalker returns the Go talker, which libktsn cannot intercept.
func staticTalker(t *testing.T, file string, options ...string) *exec.Cmd {
	return goTalker(t, file, atPodB, options...)
}

func benchTalkers(t *testing.T) {
	c := newCaptured(t, capture.Timed, daemonOptions...)
	const count = 1000 + warmUp
	// Not a whole cycle: the talker would wake up on ktsnd's CPU whenever a message leaves.
	for _, lead := range []string{"1100us", "300us"} {
		direct, relayed := &pathTiming{}, &pathTiming{}
		var directly, captured resourceUse
		for range rounds {
			directly.add(t, c, func() { direct.add(c.measure(t, c.preloadedTalker, count, "--lead", lead)) })
			captured.add(t, c, func() { relayed.add(c.measure(t, staticTalker, count, "--lead", lead)) })
		}
		recordTalkers(t, lead, direct, relayed)
		record(t, reported("ktsnd, 1 kHz through libktsn, "+lead+" ahead", cores(directly.ktsnd, directly.span), "cores"),
			reported("ktsnd, 1 kHz captured, "+lead+" ahead", cores(captured.ktsnd, captured.span), "cores"),
			reported("relay, 1 kHz captured, "+lead+" ahead", cores(captured.relay, captured.span), "cores"))
	}
}

// resourceUse is the CPU time of a lab's programs.
type resourceUse struct{ ktsnd, relay, supervisor, span time.Duration }

// add runs a function and adds the CPU time used meanwhile.
func (u *resourceUse) add(t *testing.T, c *captured, run func()) {
	t.Helper()
	read := func() resourceUse {
		return resourceUse{cpuTime(t, c.daemon.PID()), c.relayTime(t), cpuTime(t, c.relays.PID()), 0}
	}
	before, begin := read(), time.Now()
	run()
	after := read()
	u.span += time.Since(begin)
	u.ktsnd += after.ktsnd - before.ktsnd
	u.relay += after.relay - before.relay
	u.supervisor += after.supervisor - before.supervisor
}

func recordTalkers(t *testing.T, lead string, direct, relayed *pathTiming) {
	t.Helper()
	for _, path := range []struct {
		path   string
		timing *pathTiming
	}{{"direct", direct}, {"captured", relayed}} {
		name := path.path + ", " + lead + " ahead: "
		p50, p99 := percentiles(path.timing.errors)
		latency50, latency99 := percentiles(path.timing.latencies)
		limits := func(what string, value float64, unit string, limit float64) figure {
			if path.path == "direct" {
				return reported(name+what, value, unit)
			}
			return limited(name+what, value, unit, limit)
		}
		record(t, limits("departure error p50", p50, "us", 0.2), reported(name+"departure error p99", p99, "us"),
			limits("early", float64(path.timing.early), "messages", 0), limits("lost", float64(path.timing.lost), "messages", 0),
			reported(name+"handed over late", float64(path.timing.late), "messages"), reported(name+"messages", float64(path.timing.sent), "messages"),
			reported(name+"latency p50", latency50, "us"), reported(name+"latency p99", latency99, "us"))
	}
	mine, mine99 := percentiles(relayed.latencies)
	theirs, theirs99 := percentiles(direct.latencies)
	record(t, limited(lead+" ahead: latency p50, captured / direct", mine/theirs, "ratio", 1.3),
		reported(lead+" ahead: latency p99, captured / direct", mine99/theirs99, "ratio"))
}

// relayTime returns the CPU time of all relays of the lab.
func (c *captured) relayTime(t *testing.T) time.Duration {
	t.Helper()
	sum := time.Duration(0)
	for _, pid := range c.relayPIDs(t) {
		sum += cpuTime(t, pid)
	}
	return sum
}

func cores(used, span time.Duration) float64 { return float64(used) / float64(span) }

// benchIdle measures idle programs.
func benchIdle(t *testing.T) {
	const span = 10 * time.Second
	for _, mode := range []capture.Mode{capture.Timed, capture.All} {
		c := newCaptured(t, mode, daemonOptions...)
		time.Sleep(2 * time.Second) // until the work after the start is done
		var idle resourceUse
		idle.add(t, c, func() { time.Sleep(span) })
		record(t, limited("relay, idle, mode "+mode.String(), cores(idle.relay, idle.span), "cores", 0.005),
			reported("ktsnd, idle, mode "+mode.String(), cores(idle.ktsnd, idle.span), "cores"),
			reported("supervisor of relays, idle, mode "+mode.String(), cores(idle.supervisor, idle.span), "cores"))
	}
}

// transfer measures a TCP transfer from pod a to pod b in bit/s.
func (l *lab) transfer(t *testing.T, duration time.Duration) float64 {
	t.Helper()
	const port = 5201
	start(t, l.PodB, "iperf3 server", exec.Command(iperf3.Program, iperf3.ServerArguments(topology.PodAddressB, port)...))
	time.Sleep(200 * time.Millisecond)
	test := iperf3.Test{Server: topology.PodAddressB, Port: port, Duration: duration, Omit: time.Second}
	var output strings.Builder
	command := exec.Command(iperf3.Program, test.ClientArguments()...)
	command.Stdout = &output
	err := finish(t, start(t, l.PodA, "iperf3", command))
	result, parsed := iperf3.Parse(strings.NewReader(output.String()))
	if err != nil || parsed != nil {
		t.Fatalf("iperf3: %v, %v", err, parsed)
	}
	return result.ReceivedBps
}

// segmentation makes the kernel segment pod a's packets late, as usual, or at once.
func (l *lab) segmentation(t *testing.T, late uint32) {
	t.Helper()
	const setTSO, setGSO = 0x1f, 0x24 // linux/ethtool.h
	must(t, l.PodA.Do(func() error {
		if err := netdev.Ethtool(topology.PodInterface, []uint32{setTSO, late}); err != nil {
			return err
		}
		return netdev.Ethtool(topology.PodInterface, []uint32{setGSO, late})
	}))
}

// measureEchoes returns round-trip times from pod a to pod b.
func (l *lab) measureEchoes(t *testing.T) []int64 {
	t.Helper()
	test := ping.Test{To: topology.PodAddressB, Count: 200, Interval: 10 * time.Millisecond, PayloadBytes: 56}
	var output strings.Builder
	command := exec.Command(ping.Program, test.Arguments()...)
	command.Stdout = &output
	err := finish(t, start(t, l.PodA, "ping", command))
	result, parsed := ping.Parse(strings.NewReader(output.String()))
	if err != nil || parsed != nil {
		t.Fatalf("ping: %v, %v", err, parsed)
	}
	return result.RoundTripsNs
}

// benchAll compares all traffic of a pod through ktsnd with the kernel's bridge and tunnel, by turns.
func benchAll(t *testing.T) {
	kernel, all := newLab(t), newCaptured(t, capture.All, daemonOptions...)
	const duration = 3 * time.Second
	gigabits := map[string][]float64{}
	trips := map[string][]int64{}
	var during resourceUse
	for range 3 {
		kernel.segmentation(t, 1)
		gigabits["kernel"] = append(gigabits["kernel"], kernel.transfer(t, duration)/1e9)
		kernel.segmentation(t, 0)
		gigabits["kernel, segmented at once"] = append(gigabits["kernel, segmented at once"], kernel.transfer(t, duration)/1e9)
		during.add(t, all, func() { gigabits["all"] = append(gigabits["all"], all.transfer(t, duration)/1e9) })
		trips["kernel"] = append(trips["kernel"], kernel.measureEchoes(t)...)
		trips["all"] = append(trips["all"], all.measureEchoes(t)...)
	}
	on, off, through := median(gigabits["kernel"]), median(gigabits["kernel, segmented at once"]), median(gigabits["all"])
	kernel50, kernel99 := percentiles(trips["kernel"])
	all50, all99 := percentiles(trips["all"])
	record(t, reported("TCP, kernel's bridge and VXLAN", on, "Gbit/s"),
		reported("TCP, the same with segmentation offload off", off, "Gbit/s"), reported("TCP, mode All", through, "Gbit/s"),
		limited("TCP, segmentation offload off / mode All", off/through, "ratio", 2), reported("TCP, kernel / mode All", on/through, "ratio"),
		reported("relay during TCP", cores(during.relay, during.span), "cores"),
		reported("ktsnd during TCP", cores(during.ktsnd, during.span), "cores"),
		reported("ping p50, kernel", kernel50, "us"), reported("ping p50, mode All", all50, "us"),
		reported("ping p99, kernel", kernel99, "us"), reported("ping p99, mode All", all99, "us"),
		limited("ping p50, mode All / kernel", all50/kernel50, "ratio", 2))
}

// The windows of class 7 and of all others, in a cycle of a millisecond.
const (
	benchCycle    = time.Millisecond
	classSevenEnd = 300 * time.Microsecond
)

func twoWindows() *control.GateParameterTable {
	table := &control.GateParameterTable{GateEnabled: true, AdminGateStates: 255, AdminCycleTime: control.CycleTime{Numerator: 1, Denominator: 1000}}
	for index, window := range []struct {
		states uint8
		length time.Duration
	}{{0x80, classSevenEnd}, {0x7f, benchCycle - classSevenEnd}} {
		table.AdminControlList.Entries = append(table.AdminControlList.Entries, control.GateControlEntry{Index: uint32(index),
			OperationName: "set-gate-states", TimeIntervalValue: uint32(window.length.Nanoseconds()), GateStatesValue: window.states})
	}
	return table
}

// benchSchedule sends class 7 in its window, with and without a stream that uses all of class 0.
func benchSchedule(t *testing.T) {
	c := newCaptured(t, capture.All, append(slices.Clone(daemonOptions), "--link-speed", "1Gbit")...)
	must(t, c.client.ScheduleSet(t.Context(), twoWindows()))
	waitForSchedule(t, c.client)
	alone, beside := &pathTiming{}, &pathTiming{}
	outside, frames := 0, 0
	var gigabits []float64
	for range 3 {
		// Without a trace, which would contain all TCP segments.
		alone.add(c.runTalker(t, c.preloadedTalker, 2000, "--lead", "2ms", "--priority", "7", "--offset", "100us").timing(nil))
		transfer := make(chan float64, 1)
		go func() { transfer <- c.transfer(t, 5*time.Second) }()
		time.Sleep(1500 * time.Millisecond)
		tap := c.openUDPTap(t)
		beside.add(c.runTalker(t, c.preloadedTalker, 3000, "--lead", "2ms", "--priority", "7", "--offset", "100us").timing(nil))
		for _, packet := range stopTap(t, tap) {
			frames++
			if time.Duration(packet.TAI%benchCycle.Nanoseconds()) >= classSevenEnd {
				outside++
			}
		}
		gigabits = append(gigabits, <-transfer/1e9)
	}
	alone50, alone99 := percentiles(alone.latencies)
	beside50, beside99 := percentiles(beside.latencies)
	record(t, limited("class 7 outside its window beside TCP", float64(outside)/float64(max(frames, 1)), "share", 0.0001),
		reported("class 7 on the wire beside TCP", float64(frames), "frames"),
		reported("class 7 latency p50, alone", alone50, "us"), reported("class 7 latency p50, beside TCP", beside50, "us"),
		reported("class 7 latency p99, alone", alone99, "us"), reported("class 7 latency p99, beside TCP", beside99, "us"),
		limited("class 7 latency p99, beside TCP / alone", beside99/alone99, "ratio", 1.5),
		reported("class 7 lost beside TCP", float64(beside.lost), "messages"),
		reported("TCP in class 0 of a link of 1 Gbit/s", median(gigabits), "Gbit/s"))
}

// openUDPTap opens a tap without the stream's frames.
func (l *lab) openUDPTap(t *testing.T) *wiretap.Tap {
	t.Helper()
	return within(t, l.NodeB, func() (*wiretap.Tap, error) { return wiretap.OpenWithout(topology.PhysicalInterface, 20_000, 5201) })
}

// benchFlood floods by captured frames from another pod.
func benchFlood(t *testing.T) {
	c := newCaptured(t, capture.Timed, daemonOptions...)
	pod, side := c.newCapturedPod(t, 0)
	c.awaitRelay(t, side.ContainerID)
	alone, beside := &pathTiming{}, &pathTiming{}
	taken, span := uint64(0), time.Duration(0)
	for range 3 {
		alone.add(c.measure(t, c.preloadedTalker, 2000))
		flood := start(t, pod, "flood", exec.Command(program(t, "ktsn-test-talker"), "--to", netip.AddrPortFrom(topology.PodAddressB, listenPort+1).String(),
			"--cycle", "5us", "--lead", "20ms", "--count", "100000000"))
		time.Sleep(time.Second)
		before, begin := counters(t, c.client).Taken, time.Now()
		beside.add(c.measure(t, c.preloadedTalker, 2000))
		taken, span = taken+counters(t, c.client).Taken-before, span+time.Since(begin)
		must(t, unix.Kill(flood.PID(), unix.SIGKILL))
		<-flood.Done()
		time.Sleep(500 * time.Millisecond)
	}
	alone50, alone99 := percentiles(alone.errors)
	beside50, beside99 := percentiles(beside.errors)
	record(t, reported("captured flood of another pod", float64(taken)/span.Seconds(), "messages/s"),
		reported("departure error p50, alone", alone50, "us"), reported("departure error p50, beside the flood", beside50, "us"),
		reported("departure error p99, alone", alone99, "us"), reported("departure error p99, beside the flood", beside99, "us"),
		limited("departure error p99, beside the flood / alone", beside99/alone99, "ratio", 1.5),
		reported("lost beside the flood", float64(beside.lost), "messages"),
		reported("handed over late beside the flood", float64(beside.late), "messages"))
}
