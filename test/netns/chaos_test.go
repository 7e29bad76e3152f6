// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

// isChaos reports whether `make chaos` runs this test, for longer.
func isChaos() bool {
	return os.Getenv("KTSN_CHAOS") == "1"
}

// shortOrLong returns the first number for `make test` and the second for `make chaos`.
func shortOrLong[T any](short, long T) T {
	if isChaos() {
		return long
	}
	return short
}

// quantile returns a quantile of a sample. Quantile 1 is the largest value.
func quantile(sample []time.Duration, share float64) time.Duration {
	if len(sample) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(sample))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}

// awaitFlows waits until ktsnd has count sockets.
func awaitFlows(t *testing.T, client *control.Client, flows int) {
	t.Helper()
	awaitStatus(t, client, fmt.Sprintf("%d sockets are known", flows), func(status *control.Status) bool { return status.Flows == flows })
}

// startServedFlow starts the next flow, to its own port, and waits until ktsnd serves it.
func (l *lab) startServedFlow(t *testing.T, client *control.Client, number int, options ...string) *flow {
	t.Helper()
	started := l.startFlowTo(t, netip.AddrPortFrom(topology.PodAddressB, uint16(listenPort+10+number)), options...)
	awaitStatus(t, client, "the talker is served", func(status *control.Status) bool { return status.Flows > number })
	return started
}

// gap is a missing message, with the arrivals of the nearest two messages of its flow in TAI.
type gap struct {
	sequence      uint32
	before, after int64
}

func findGaps(sent []tsnperf.Sent, received []tsnperf.Received) []gap {
	arrivals := map[uint32]int64{}
	for _, message := range received {
		arrivals[message.Sequence] = message.Arrival
	}
	var missing []gap
	last, open := int64(0), 0
	for _, message := range sent {
		arrival, arrived := arrivals[message.Sequence]
		switch {
		case message.Errno != 0:
		case !arrived:
			missing = append(missing, gap{message.Sequence, last, math.MaxInt64})
			open++
		default:
			for ; open > 0; open-- {
				missing[len(missing)-open].after = arrival
			}
			last = arrival
		}
	}
	return missing
}

// death is the interval in which ktsnd was killed.
type death struct{ from, to int64 }

// unexplainedGaps returns the missing messages of a flow that no kill explains: a kill explains those between the
// arrivals of the message before and the one after it.
func unexplainedGaps(missing []gap, kills []death) (left []gap) {
	next := 0
	for _, gap := range missing {
		for next < len(kills) && kills[next].to < gap.before {
			next++
		}
		if next == len(kills) || kills[next].from > gap.after {
			left = append(left, gap)
			continue
		}
		next++
	}
	return left
}

// checkExplained checks a finished flow: each received message is valid and came once, and a kill explains each missing
// one. It returns the number of missing messages.
func (f *flow) checkExplained(t *testing.T, kills []death) uint64 {
	t.Helper()
	missing := findGaps(f.sent, f.received)
	f.checkConserved(t, sum{uncertain: uint64(len(missing))})
	for _, message := range unexplainedGaps(missing, kills) {
		t.Errorf("message %d is missing, and no kill came between the arrivals around it, at %d and %d, to which no other is laid",
			message.sequence, message.before, message.after)
	}
	return uint64(len(missing))
}

func TestKillAccounting(t *testing.T) {
	timing(t)
	sent := func(count int) (all []tsnperf.Sent) {
		for i := range count {
			all = append(all, tsnperf.Sent{Sequence: uint32(i)})
		}
		return all
	}
	received := func(sequences ...uint32) (all []tsnperf.Received) {
		for _, sequence := range sequences {
			all = append(all, tsnperf.Received{Sequence: sequence, Arrival: int64(sequence) * 100})
		}
		return all
	}
	for name, test := range map[string]struct {
		received []tsnperf.Received
		kills    []death
		fits     bool
	}{
		"nothing is missing":                 {received(0, 1, 2, 3, 4, 5), []death{{250, 260}}, true},
		"one at a kill":                      {received(0, 1, 2, 4, 5), []death{{250, 260}}, true},
		"two at one kill":                    {received(0, 1, 4, 5), []death{{250, 260}}, false},
		"two at two kills":                   {received(0, 1, 4, 5), []death{{250, 260}, {350, 360}}, true},
		"one before the kill":                {received(0, 2, 3, 4, 5), []death{{350, 360}}, false},
		"one after the kill":                 {received(0, 1, 2, 3, 5), []death{{150, 160}}, false},
		"the last, at a kill":                {received(0, 1, 2, 3, 4), []death{{450, 460}}, true},
		"one for each kill, in other places": {received(0, 2, 3, 5), []death{{150, 160}, {350, 360}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if left := unexplainedGaps(findGaps(sent(6), test.received), test.kills); (len(left) == 0) != test.fits {
				t.Errorf("%d are left", len(left))
			}
		})
	}
}

func TestChaosOfKilledDaemons(t *testing.T) {
	timing(t)
	const flows = 3
	kills := shortOrLong(5, 100)
	lab := newLab(t)
	// Almost as many slots as kills: if each kill lost one, senders would wait forever.
	options := []string{"--slots", "64"}
	daemon, client := lab.startDaemon(t, options...)
	var running [flows]*flow
	for i := range running {
		running[i] = lab.startServedFlow(t, client, i, "--cycle", "1ms", "--lead", "5ms")
	}
	var total sum
	var gaps []time.Duration
	var deaths []death
	for i := range kills {
		awaitTaken(t, client, 50*flows)
		if i%2 == 0 { // otherwise while the waiting messages leave
			awaitOnTime(t, client)
			time.Sleep(rand.N(50 * time.Millisecond))
		}
		time.Sleep(rand.N(10 * time.Millisecond))
		counted := counters(t, client)
		if counted.Uncertain > flows {
			t.Errorf("after kill %d %d messages of %d flows are uncertain", i, counted.Uncertain, flows)
		}
		total.add(counted)
		died := time.Now()
		from := testlab.ClockNow(unix.CLOCK_TAI)
		kill(t, daemon)
		deaths = append(deaths, death{from, testlab.ClockNow(unix.CLOCK_TAI)})
		daemon, client = lab.startDaemon(t, options...)
		awaitTaken(t, client, 1)
		gaps = append(gaps, time.Since(died))
	}
	awaitFlows(t, client, flows) // messages in the ring of an application that ends earlier are lost
	awaitTaken(t, client, 50*flows)
	missing := uint64(0)
	for _, f := range running {
		f.stop(t)
		missing += f.checkExplained(t, deaths)
	}
	awaitIdle(t, client)
	total.add(awaitSettled(t, client))
	if missing > total.uncertain || total.dropped != 0 || total.astray != 0 {
		t.Errorf("%d messages are missing; %+v", missing, total)
	}
	record(t,
		reported("kills of ktsnd under load", float64(kills), "kills"),
		limited("uncertain messages for each kill and flow", float64(total.uncertain)/float64(kills*flows), "messages", 1),
		reported("restart: gap in departures, p50", milliseconds(quantile(gaps, 0.5)), "ms"),
		reported("restart: gap in departures, max", milliseconds(quantile(gaps, 1)), "ms"))
}

func TestChaosOfKilledApplications(t *testing.T) {
	timing(t)
	const atOnce = 4
	kills := shortOrLong(50, 1000)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	lab.goodTraffic(t, 10, func() {})
	awaitIdle(t, client)
	before := holdingsOf(t, daemon)
	base := counters(t, client)
	counter := lab.startCounter(t)
	steady := lab.startServedFlow(t, client, 0, "--cycle", "1ms", "--lead", "5ms")
	for range kills / atOnce {
		var running [atOnce]*process.Process
		for i := range running {
			running[i] = lab.startTalker(t, os.DevNull, "--cycle", "500us", "--lead", "5ms", "--start", "+10ms",
				"--to", netip.AddrPortFrom(topology.PodAddressB, hostilePort).String())
		}
		time.Sleep(40*time.Millisecond + rand.N(80*time.Millisecond))
		for _, application := range running {
			kill(t, application)
		}
	}
	steady.stop(t)
	if lost := steady.checkExplained(t, nil); lost != 0 {
		t.Errorf("%d messages of the application that lived are missing", lost)
	}
	awaitReturned(t, daemon, client, before)
	counted := awaitSettled(t, client)
	checkBooks(t, counted)
	if counted.Dropped() != 0 || counted.KernelPath != 0 {
		t.Errorf("%d dropped, %d went the kernel's way", counted.Dropped(), counted.KernelPath)
	}
	steadies := uint64(0)
	for _, message := range steady.sent {
		if message.Errno == 0 {
			steadies++
		}
	}
	fromKilled := counted.Sent - base.Sent - steadies
	// On a busy machine more of them are killed before they start to send.
	if fromKilled < uint64(kills)/5 {
		t.Errorf("only %d messages arrived from %d applications; the test proves nothing", fromKilled, kills)
	}
	counter.awaitArrivals(t, int(fromKilled))
	record(t,
		reported("kills of applications", float64(kills), "kills"),
		reported("messages of killed applications, all of which arrived", float64(fromKilled), "messages"))
}

// manyPods is a set of pods on node a.
type manyPods struct {
	pods    []*topology.Namespace
	sockets []string
}

// addManyPods attaches count pods.
func (l *lab) addManyPods(t *testing.T, client *control.Client, count int) *manyPods {
	t.Helper()
	all := &manyPods{}
	address := topology.BackgroundAddresses
	for i := range count {
		name := fmt.Sprintf("background%d", i)
		pod := newNamespace(t, l.NodeA.Name()+"-"+name)
		ip(t, l.NodeA, "link", "add", name, "mtu", "1450", "master", topology.BridgeName, "up", "type", "veth",
			"peer", "name", topology.PodInterface, "mtu", "1450", "netns", pod.Name())
		ip(t, pod, "address", "add", fmt.Sprintf("%s/%d", address, topology.PodPrefixBits), "dev", topology.PodInterface)
		address = address.Next()
		ip(t, pod, "link", "set", topology.PodInterface, "up")
		socket := filepath.Join(l.dir, name+".sock")
		must(t, client.SocketAdd(t.Context(), name, socket))
		must(t, client.EndpointAdd(t.Context(), control.Endpoint{Identity: name, Interface: topology.PodInterface,
			Netns: pod.Path(), VNI: topology.VNI}))
		all.pods, all.sockets = append(all.pods, pod), append(all.sockets, socket)
	}
	return all
}

// exchangeResult contains the time at which the first message of many pods was due, and ktsnd's count of sent messages
// before.
type exchangeResult struct {
	baseTAI    int64
	sentBefore uint64
}

// exchange runs a sending process in each pod in turn, with all periods spread evenly, and waits for their end. begin
// is called when the first message is about to be due.
func (c *manyPods) exchange(t *testing.T, client *control.Client, processes, messages int, begin func()) exchangeResult {
	t.Helper()
	// On a busy machine starting may take longer than until the first message: then all start again.
	for _, each := range []time.Duration{15, 30, 60} {
		base := time.Now().Truncate(messagePeriod).Add(time.Duration(processes)*each*time.Millisecond + time.Second)
		begun := exchangeResult{taiOf(base), awaitSettled(t, client).Sent}
		running := c.start(t, begun.baseTAI, processes, messages)
		if !servedBy(t, client, base, processes) {
			for _, talker := range running {
				kill(t, talker)
			}
			awaitIdle(t, client)
			continue
		}
		time.Sleep(time.Until(base.Add(-20 * time.Millisecond)))
		begin()
		for _, talker := range running {
			must(t, finish(t, talker))
		}
		return begun
	}
	t.Fatal("the machine is too busy: not all applications found ktsnd in time")
	return exchangeResult{}
}

const messagePeriod = 100 * time.Millisecond

// start starts the processes. The first message is due at the given time.
func (c *manyPods) start(t *testing.T, baseTAI int64, processes, messages int) (running []*process.Process) {
	t.Helper()
	for i := range processes {
		command := exec.Command(program(t, "tsnperf"), "talker", "--quiet", "--clock", "tai",
			"--count", strconv.Itoa(messages), "--cycle", messagePeriod.String(), "--lead", "10ms",
			"--start", strconv.FormatInt(baseTAI, 10),
			"--offset", strconv.FormatInt(int64(messagePeriod)*int64(i)/int64(processes), 10),
			"--to", netip.AddrPortFrom(topology.PodAddressB, hostilePort).String())
		command.Env = append(os.Environ(), "LD_PRELOAD="+program(t, "libktsn.so"), "KTSN_SOCKET="+c.sockets[i%len(c.pods)])
		running = append(running, start(t, c.pods[i%len(c.pods)], "talker", command))
	}
	return running
}

// servedBy reports whether ktsnd has count sockets well before a time.
func servedBy(t *testing.T, client *control.Client, deadline time.Time, flows int) bool {
	t.Helper()
	for deadline = deadline.Add(-100 * time.Millisecond); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if statusOf(t, client).Flows == flows {
			return true
		}
	}
	return false
}

// taiOf converts a time by the current difference of the clocks.
func taiOf(at time.Time) int64 {
	return testlab.ClockNow(unix.CLOCK_TAI) + int64(time.Until(at))
}

func TestChaosOfManyPods(t *testing.T) {
	timing(t)
	pods, processes, messages := shortOrLong(32, 256), shortOrLong(128, 1000), shortOrLong(20, 100)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t, "--slots", "64")
	counter := lab.startCounter(t)
	all := lab.addManyPods(t, client, pods)
	alone := all.exchange(t, client, 1, messages, func() {})
	awaitIdle(t, client)
	single := departureErrors(t, client, alone.sentBefore)
	counter.awaitSince(t, alone.baseTAI, messages)
	all.exchange(t, client, processes, 2, func() {}) // the allocator keeps memory of the first run for the next ones
	awaitIdle(t, client)
	before := holdingsOf(t, daemon)
	var during podResources
	var cpuBefore time.Duration
	var began time.Time
	begun := all.exchange(t, client, processes, messages, func() {
		during = holdingsOf(t, daemon)
		cpuBefore = cpuTime(t, daemon.PID())
		began = time.Now()
	})
	took, cpu := time.Since(began), cpuTime(t, daemon.PID())-cpuBefore
	counted := awaitSettled(t, client)
	checkBooks(t, counted)
	if counted.Dropped() != 0 || counted.KernelPath != 0 {
		t.Errorf("%d dropped, %d went the kernel's way", counted.Dropped(), counted.KernelPath)
	}
	counter.awaitSince(t, begun.baseTAI, messages*processes)
	if sent := counted.Sent - begun.sentBefore; sent != uint64(messages*processes) {
		t.Errorf("ktsnd sent %d messages of %d", sent, messages*processes)
	}
	many := departureErrors(t, client, begun.sentBefore)
	awaitReturned(t, daemon, client, before)
	name := fmt.Sprintf("%d pods, %d flows: ", pods, processes)
	record(t,
		limited(name+"departure error p50, times that of one flow", ratio(quantile(many, 0.5), quantile(single, 0.5)), "", 2),
		reported(name+"departure error p50", float64(quantile(many, 0.5)), "ns"),
		reported(name+"departure error p99", float64(quantile(many, 0.99)), "ns"),
		reported("one flow: departure error p50", float64(quantile(single, 0.5)), "ns"),
		reported("one flow: departure error p99", float64(quantile(single, 0.99)), "ns"),
		reported(name+"processor of ktsnd for each flow", 100*cpu.Seconds()/took.Seconds()/float64(processes), "%"),
		reported(name+"memory of ktsnd for each flow", float64((during.rssBytes-before.rssBytes)/processes/1024), "KiB"))
}

// TestChaosOfIdleRings measures ktsnd's cost of a message, most of which is waking up, with and without idle
// applications.
func TestChaosOfIdleRings(t *testing.T) {
	timing(t)
	messages, idlers := shortOrLong(500, 5000), shortOrLong(16, 256)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t, "--slots", "64", "--pod-processes", "1024", "--spin", "20us")
	counter := lab.startCounter(t)
	to := netip.AddrPortFrom(topology.PodAddressB, hostilePort).String()
	perMessage := func() float64 {
		talker := lab.startServedTalker(t, "--count", strconv.Itoa(messages), "--cycle", "2ms", "--lead", "1ms", "--to", to)
		before := cpuTime(t, daemon.PID())
		must(t, finish(t, talker))
		return float64(cpuTime(t, daemon.PID())-before) / float64(messages)
	}
	alone := perMessage()
	var idle []*process.Process
	for range idlers {
		idle = append(idle, lab.startTalker(t, os.DevNull, "--count", "1", "--start", "+600s", "--to", to))
	}
	awaitFlows(t, client, idlers)
	beside := perMessage()
	for _, idleTalker := range idle {
		kill(t, idleTalker)
	}
	counter.awaitArrivals(t, 2*messages)
	record(t,
		reported("processor of ktsnd for a message", alone/1000, "us"),
		limited(fmt.Sprintf("the same beside %d idle rings, times that without", idlers), beside/alone, "", 1.1))
}

func milliseconds(duration time.Duration) float64 {
	return float64(duration) / float64(time.Millisecond)
}

// ratio returns the ratio of two times, of which the second is at least 1 ns.
func ratio(duration, to time.Duration) float64 { return float64(duration) / float64(max(to, 1)) }

// cpuTime returns the CPU time of a process.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	spent, err := process.CPUTime(pid)
	must(t, err)
	return spent
}

// departureErrors returns the errors of the departures after a number, as far as ktsnd still has them.
func departureErrors(t *testing.T, client *control.Client, after uint64) []time.Duration {
	t.Helper()
	departures, _, err := client.Departures(t.Context(), after)
	must(t, err)
	var all []time.Duration
	for _, departure := range departures {
		all = append(all, time.Duration(departure.DepartedTAI-departure.RequestedTAI))
	}
	return all
}
