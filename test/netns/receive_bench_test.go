// SPDX-License-Identifier: Apache-2.0

//go:build bench

package netns_test

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	rings "github.com/kubernetsn/kubernetsn/internal/node/receive"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// receivingBench is two nodes with ktsnd and the program at their uplinks. Pod a gets rings if a test requests them.
type receivingBench struct {
	*lab
	side, sideOfA    *receivingSide
	daemonA, daemonB *process.Process
	socketOfB        string
}

// receivedMessages returns the number of datagrams in rings at both nodes.
func (b *receivingBench) receivedMessages(t *testing.T) uint64 {
	t.Helper()
	return b.side.counts(t).Received + b.sideOfA.counts(t).Received
}

// receivePath is a path from an application of node a to one of node b.
type receivePath struct {
	name string
	// host means without pods. timed means through ktsnd; otherwise the talker spins until the time and sends through the kernel.
	host, timed bool
	// Functions of the program at the uplink. With none set it has no entry for the pod.
	rings, redirect bool
}

// receivePaths take turns. The first is the reference.
var receivePaths = []receivePath{
	{name: "host-spin", host: true},
	{name: "kernel-vxlan-spin"},
	{name: "kernel-vxlan-spin, redirect", redirect: true},
	{name: "direct", timed: true},
	{name: "direct, redirect", timed: true, redirect: true},
	{name: "ring-receive", timed: true, rings: true},
}

// TestReceiveFigures measures datagrams past the bridge and into rings, compared with the kernel's path (make receive).
// No figure fails the test.
func TestReceiveFigures(t *testing.T) {
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		t.Logf("figure: load average at the beginning %s", load)
	}
	b := newReceivingBench(t)
	for _, listener := range []string{"--poll", "--block"} {
		t.Run(listener, func(t *testing.T) { b.comparePaths(t, listener) })
	}
	t.Run("idle", b.idle)
	t.Run("round trips", b.roundTrips)
	t.Run("departures", b.measureDepartures)
}

func newReceivingBench(t *testing.T) *receivingBench {
	t.Helper()
	b := &receivingBench{lab: newLab(t)}
	b.side = &receivingSide{b.NodeB, b.PodB, topology.NodeAddressB, topology.PodAddressB, topology.NodeAddressA, topology.PodSubnetA}
	b.side.attach(t, rings.Endpoint{})
	b.sideOfA = b.sideA()
	b.sideOfA.join(t, rings.Endpoint{})
	daemonA, clientOfA := b.startDaemon(t, daemonOptions...)
	b.daemonA = daemonA
	b.receiving(t, clientOfA)
	const podB = "pod-b"
	b.socketOfB = filepath.Join(b.Dir, "app-b.sock")
	at := filepath.Join(b.Dir, "ctl-b.sock")
	daemonB, client := startDaemonOn(t, b.NodeB, at, topology.NodeAddressB, daemonOptions...)
	b.daemonB = daemonB
	must(t, errors.Join(
		client.PeerAdd(t.Context(), control.Peer{VNI: topology.VNI, Address: topology.NodeAddressA, Subnets: []netip.Prefix{topology.PodSubnetA}}),
		client.EndpointAdd(t.Context(), control.Endpoint{Identity: podB, Interface: topology.PodInterface, Netns: b.PodB.Path(), VNI: topology.VNI, Receive: true}),
		client.SocketAdd(t.Context(), podB, b.socketOfB)))
	return b
}

// exchange sends count messages over a path.
func (b *receivingBench) exchange(t *testing.T, path *receivePath, wait string, count int) *flow {
	t.Helper()
	b.side.tell(t, rings.Endpoint{Rings: path.rings, Redirect: path.redirect})
	from, to, at := b.endpoints(path)
	dir := t.TempDir()
	f := &flow{talkerFile: filepath.Join(dir, "talker.csv"), listenerFile: filepath.Join(dir, "listener.csv")}
	f.listener = b.listen(t, path, to, at, wait, "--csv", f.listenerFile, "--count", strconv.Itoa(count))
	f.talker = start(t, from, "talker", b.talker(t, path, at, f.talkerFile, count))
	f.finish(t)
	return f
}

// tell configures the programs at both uplinks for a path.
func (b *receivingBench) tell(t *testing.T, path *receivePath) {
	t.Helper()
	for _, side := range []*receivingSide{b.side, b.sideOfA} {
		side.tell(t, rings.Endpoint{Rings: path.rings, Redirect: path.redirect})
	}
}

// endpoints returns the two ends of a path.
func (b *receivingBench) endpoints(path *receivePath) (from, to *topology.Namespace, at netip.AddrPort) {
	if path.host {
		return b.NodeA, b.NodeB, netip.AddrPortFrom(topology.NodeAddressB, listenPort)
	}
	return b.PodA, b.PodB, atPodB
}

// listen starts a listener, which reads from a ring if the path has rings.
func (b *receivingBench) listen(t *testing.T, path *receivePath, in *topology.Namespace, at netip.AddrPort, options ...string) *process.Process {
	t.Helper()
	command := exec.Command(program(t, "tsnperf"), append([]string{"listener", "--quiet", "--bind", at.String(), "--cpu", listenerCPU,
		"--first-timeout", seconds(patience), "--idle-timeout", "2s"}, options...)...)
	if path.rings {
		command.Env = append(os.Environ(), "LD_PRELOAD="+program(t, "libktsn.so"), "KTSN_SOCKET="+b.socketOfB, "KTSN_RECEIVE=ring")
	}
	started := start(t, in, "listener", command)
	time.Sleep(200 * time.Millisecond) // until it has started and has a ring
	return started
}

// talker returns the command of a path's talker.
func (b *receivingBench) talker(t *testing.T, path *receivePath, at netip.AddrPort, file string, count int, options ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command(program(t, "tsnperf"), append([]string{"talker", "--quiet", "--csv", file, "--to", at.String(),
		"--count", strconv.Itoa(count), "--cpu", senderCPU}, options...)...)
	if path.timed {
		command.Args = append(command.Args, "--lead", "1100us")
		command.Env = b.preloaded(t)
	} else {
		command.Args = append(command.Args, "--no-txtime", "--spin", "200us")
	}
	return command
}

// comparePaths measures all paths by turns.
func (b *receivingBench) comparePaths(t *testing.T, wait string) {
	const count = 2000 + warmUp
	results := make([]pathTiming, len(receivePaths))
	used := make([]receiveUse, len(receivePaths))
	for range rounds {
		for i := range receivePaths {
			used[i].add(t, b, func() *flow {
				f := b.exchange(t, &receivePaths[i], wait, count)
				results[i].add(f.timing(nil))
				return f
			})
		}
	}
	host50, host99 := percentiles(results[0].latencies)
	for i := range results {
		p50, p99 := percentiles(results[i].latencies)
		name := wait[2:] + ", " + receivePaths[i].name + ": "
		record(t, reported(name+"latency p50", p50, "us"), reported(name+"latency p99", p99, "us"),
			reported(name+"p50 / host-spin", p50/host50, "ratio"), reported(name+"p99 / host-spin", p99/host99, "ratio"),
			reported(name+"messages", float64(results[i].sent), "messages"), limited(name+"early", float64(results[i].early), "messages", 0),
			limited(name+"lost", float64(results[i].lost), "messages", 0))
		used[i].record(t, name, receivePaths[i].rings)
	}
	b.recordRatios(t, wait, results)
}

// receiveUse is the CPU time of all processes of a path, and the number of messages in rings. The kernel's work at the
// receiving node is charged to the sender: a veth pair delivers in the sender's context.
type receiveUse struct {
	talker, sender, receiver, listener, span time.Duration
	byRing                                   uint64 // messages
}

// add runs a function and adds the CPU time used meanwhile.
func (u *receiveUse) add(t *testing.T, b *receivingBench, run func() *flow) {
	t.Helper()
	byRing := b.receivedMessages(t)
	sender, receiver, begin := cpuTime(t, b.daemonA.PID()), cpuTime(t, b.daemonB.PID()), time.Now()
	f := run()
	u.span += time.Since(begin)
	u.sender += cpuTime(t, b.daemonA.PID()) - sender
	u.receiver += cpuTime(t, b.daemonB.PID()) - receiver
	u.byRing += b.receivedMessages(t) - byRing
	u.talker += f.talker.Used()
	u.listener += f.listener.Used()
}

func (u *receiveUse) record(t *testing.T, name string, rings bool) {
	t.Helper()
	receiver := reported(name+"ktsnd of the receiving node at 1 kHz", cores(u.receiver, u.span), "cores")
	if rings {
		// On a busy machine libktsn may leave a socket to the kernel.
		record(t, reported(name+"by a ring", float64(u.byRing), "messages"))
		receiver = limited(receiver.Name, receiver.Value, receiver.Unit, 0.15)
	}
	record(t, reported(name+"talker", cores(u.talker, u.span), "cores"), reported(name+"ktsnd of the sending node", cores(u.sender, u.span), "cores"),
		receiver, reported(name+"listener", cores(u.listener, u.span), "cores"))
}

// recordRatios records the ratios that have limits.
func (b *receivingBench) recordRatios(t *testing.T, wait string, results []pathTiming) {
	t.Helper()
	byName := map[string]pathTiming{}
	for i := range results {
		byName[receivePaths[i].name] = results[i]
	}
	ratio := func(first, second string) (p50, p99 float64) {
		one50, one99 := percentiles(byName[first].latencies)
		other50, other99 := percentiles(byName[second].latencies)
		return one50 / other50, one99 / other99
	}
	name := wait[2:] + ": "
	host50, host99 := ratio("ring-receive", "host-spin")
	kernel50, _ := ratio("ring-receive", "kernel-vxlan-spin")
	redirect50, redirect99 := ratio("direct, redirect", "direct")
	if wait == "--poll" {
		record(t, limited(name+"ring-receive / host-spin, p50", host50, "ratio", 0.6), limited(name+"ring-receive / host-spin, p99", host99, "ratio", 0.8),
			limited(name+"ring-receive / kernel-vxlan-spin, p50", kernel50, "ratio", 0.4))
	} else {
		record(t, limited(name+"ring-receive / host, p50", host50, "ratio", 1))
	}
	record(t, limited(name+"redirect / the ordinary path, p50", redirect50, "ratio", 0.85), reported(name+"redirect / the ordinary path, p99", redirect99, "ratio"))
}

// idle measures a ktsnd whose pod waits at a ring.
func (b *receivingBench) idle(t *testing.T) {
	const span = 5 * time.Second
	b.side.tell(t, rings.Endpoint{Rings: true})
	started := b.listen(t, &receivePath{rings: true}, b.PodB, atPodB, "--block", "--first-timeout", "0")
	time.Sleep(time.Second)
	ktsnd, application := cpuTime(t, b.daemonB.PID()), cpuTime(t, started.PID())
	time.Sleep(span)
	record(t, limited("idle, ktsnd of the receiving node", cores(cpuTime(t, b.daemonB.PID())-ktsnd, span), "cores", 0.005),
		limited("idle, a listener that blocks at a ring", cores(cpuTime(t, started.PID())-application, span), "cores", 0.005))
	interrupt(t, started)
	must(t, finish(t, started))
}

// roundTripPaths take turns. Replies use the kernel without a transmit time on each path.
var roundTripPaths = []receivePath{
	{name: "host-spin", host: true},
	{name: "kernel-vxlan-spin"},
	{name: "kernel-vxlan-spin, ring-receive", rings: true},
	{name: "ring-receive", timed: true, rings: true},
}

// roundTrips measures the time from the requested time to the reply of a polling listener.
func (b *receivingBench) roundTrips(t *testing.T) {
	const count = 1000 + warmUp
	results := make([]pathTiming, len(roundTripPaths))
	byRing := make([]uint64, len(roundTripPaths))
	for range rounds {
		for i := range roundTripPaths {
			before := b.receivedMessages(t)
			results[i].add(b.roundTrip(t, &roundTripPaths[i], count))
			byRing[i] += b.receivedMessages(t) - before
		}
	}
	host50, host99 := percentiles(results[0].latencies)
	for i := range results {
		name := "round trip, " + roundTripPaths[i].name + ": "
		p50, p99 := percentiles(results[i].latencies)
		ratio := reported(name+"p50 / host-spin", p50/host50, "ratio")
		if roundTripPaths[i].rings {
			ratio = limited(ratio.Name, ratio.Value, ratio.Unit, 0.6)
		}
		record(t, reported(name+"p50", p50, "us"), reported(name+"p99", p99, "us"), ratio, reported(name+"p99 / host-spin", p99/host99, "ratio"),
			reported(name+"messages", float64(results[i].sent), "messages"), reported(name+"by rings, there and back", float64(byRing[i]), "messages"), limited(name+"lost", float64(results[i].lost), "messages", 0))
	}
}

// roundTrip sends count messages to a listener that returns them.
func (b *receivingBench) roundTrip(t *testing.T, path *receivePath, count int) *pathTiming {
	t.Helper()
	b.tell(t, path)
	from, to, at := b.endpoints(path)
	dir := t.TempDir()
	f := &flow{talkerFile: filepath.Join(dir, "talker.csv"), listenerFile: filepath.Join(dir, "replies.csv")}
	f.listener = b.listen(t, path, to, at, "--poll", "--echo", "--count", strconv.Itoa(count))
	// A message is handed over more than a millisecond ahead, after the reply to the previous one.
	talker := b.talker(t, path, at, f.talkerFile, count, "--cycle", "2ms", "--replies", f.listenerFile)
	if path.rings {
		talker.Env = append(b.preloaded(t), "KTSN_RECEIVE=ring")
	}
	f.talker = start(t, from, "talker", talker)
	f.finish(t)
	return f.timing(nil)
}

// incoming is what pod a receives while it sends: nothing, or a message a millisecond.
var incoming = []struct {
	name  string
	comes bool
	rings bool
}{{"nothing is received", false, false}, {"the kernel receives", true, false}, {"rings receive", true, true}}

// measureDepartures measures the departures of one ktsnd with and without incoming datagrams for its pod.
func (b *receivingBench) measureDepartures(t *testing.T) {
	const count = 2000 + warmUp
	results := make([]pathTiming, len(incoming))
	var received int
	var byRing uint64
	for range rounds {
		for i := range incoming {
			before := b.receivedMessages(t)
			b.tell(t, &receivePath{rings: incoming[i].rings})
			end := func() int { return 0 }
			if incoming[i].comes {
				end = b.incoming(t)
			}
			following := b.followPodA(t)
			f := b.exchange(t, &receivePath{timed: true}, "--block", count)
			results[i].add(f.timing(following.stop()))
			received += end()
			byRing += b.receivedMessages(t) - before
		}
	}
	_, alone99 := percentiles(results[0].errors)
	for i := range results {
		name := "departures while " + incoming[i].name + ": "
		p50, p99 := percentiles(results[i].errors)
		ratio := reported(name+"p99 / nothing is received", p99/alone99, "ratio")
		if incoming[i].rings {
			ratio = limited(ratio.Name, ratio.Value, ratio.Unit, 1.2)
		}
		record(t, reported(name+"error p50", p50, "us"), reported(name+"error p99", p99, "us"), ratio,
			reported(name+"handed over late", float64(results[i].late), "messages"), limited(name+"lost", float64(results[i].lost), "messages", 0))
	}
	record(t, reported("departures: datagrams that pod a received meanwhile", float64(received), "messages"),
		reported("departures: of these by a ring", float64(byRing), "messages"))
}

// incoming sends from pod b's kernel to a blocking listener of pod a. The returned function ends it and returns the
// number of received messages.
func (b *receivingBench) incoming(t *testing.T) (end func() int) {
	t.Helper()
	dir := t.TempDir()
	f := &flow{talkerFile: filepath.Join(dir, "talker.csv"), listenerFile: filepath.Join(dir, "listener.csv")}
	listener := exec.Command(program(t, "tsnperf"), "listener", "--block", "--quiet", "--csv", f.listenerFile, "--bind", atPodA.String(), "--cpu", listenerCPU,
		"--first-timeout", seconds(patience), "--idle-timeout", "1s")
	listener.Env = append(b.preloaded(t), "KTSN_RECEIVE=ring")
	f.listener = start(t, b.PodA, "listener", listener)
	time.Sleep(200 * time.Millisecond) // until it has started and has a ring
	f.talker = b.startKernelTalker(t, f.talkerFile, unlimited)
	return func() int {
		interrupt(t, f.talker)
		f.drain(t)
		if len(f.received) != len(f.sent) {
			t.Errorf("%d of %d datagrams reached pod a", len(f.received), len(f.sent))
		}
		return len(f.received)
	}
}
