// SPDX-License-Identifier: Apache-2.0

//go:build bench

package netns_test

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/bench/process"
	"github.com/kubernetsn/kubernetsn/internal/bench/topology"
	rings "github.com/kubernetsn/kubernetsn/internal/node/receive"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// receivingBench is two nodes with ktsnd, of which b has the program at its uplink.
type receivingBench struct {
	*lab
	side      *receivingSide
	daemonB   *process.Process
	socketOfB string
}

// receivePath is one way of a message from an application of node a to one of node b.
type receivePath struct {
	name string
	// host: without pods. timed: by ktsnd; else the talker spins until it is time, and sends by the kernel.
	host, timed bool
	// What the program at the uplink does. None: it knows no pod.
	rings, redirect bool
}

// receivePaths take turns. The first is what the others are compared with.
var receivePaths = []receivePath{
	{name: "host-spin", host: true},
	{name: "kernel-vxlan-spin"},
	{name: "kernel-vxlan-spin, redirect", redirect: true},
	{name: "direct", timed: true},
	{name: "direct, redirect", timed: true, redirect: true},
	{name: "ring-receive", timed: true, rings: true},
}

// make receive: datagrams past the bridge and into rings, beside the kernel's path. No figure is a verdict of the test.
func TestReceiveFigures(t *testing.T) {
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		t.Logf("figure: load average at the beginning %s", load)
	}
	b := newReceivingBench(t)
	for _, listener := range []string{"--poll", "--block"} {
		t.Run(listener, func(t *testing.T) { b.comparePaths(t, listener) })
	}
	t.Run("idle", b.idle)
}

func newReceivingBench(t *testing.T) *receivingBench {
	t.Helper()
	b := &receivingBench{lab: newLab(t)}
	b.side = &receivingSide{b.NodeB, b.PodB, topology.NodeAddressB, topology.PodAddressB, topology.NodeAddressA, topology.PodSubnetA}
	b.side.attach(t, rings.Endpoint{})
	b.startDaemon(t, daemonOptions...)
	const podB = "pod-b"
	b.socketOfB = filepath.Join(b.Dir, "app-b.sock")
	at := filepath.Join(b.Dir, "ctl-b.sock")
	b.daemonB = start(t, b.NodeB, "ktsnd of node b", exec.Command(program(t, "ktsnd"), append([]string{"--interface", topology.PhysicalInterface,
		"--local-address", topology.NodeAddressB.String(), "--control", at}, daemonOptions...)...))
	client := connect(t, b.daemonB, at)
	for _, err := range []error{
		client.PeerAdd(t.Context(), control.Peer{VNI: topology.VNI, Address: topology.NodeAddressA, Subnets: []netip.Prefix{topology.PodSubnetA}}),
		client.EndpointAdd(t.Context(), control.Endpoint{Identity: podB, Interface: topology.PodInterface, Netns: b.PodB.Path(), VNI: topology.VNI, Receive: true}),
		client.SocketAdd(t.Context(), podB, b.socketOfB),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// exchange has count messages go one way.
func (b *receivingBench) exchange(t *testing.T, path *receivePath, wait string, count int) *timing {
	t.Helper()
	b.side.tell(t, rings.Endpoint{Rings: path.rings, Redirect: path.redirect})
	from, to, at := b.PodA, b.PodB, atPodB
	if path.host {
		from, to, at = b.NodeA, b.NodeB, netip.AddrPortFrom(topology.NodeAddressB, listenPort)
	}
	dir := t.TempDir()
	f := &flow{talkerFile: filepath.Join(dir, "talker.csv"), listenerFile: filepath.Join(dir, "listener.csv")}
	listener := exec.Command(program(t, "tsnperf"), "listener", wait, "--quiet", "--csv", f.listenerFile, "--bind", at.String(), "--count", strconv.Itoa(count),
		"--cpu", listenerCPU, "--first-timeout", inSeconds(patience), "--idle-timeout", "2s")
	if path.rings {
		listener.Env = append(os.Environ(), "LD_PRELOAD="+program(t, "libktsn.so"), "KTSN_SOCKET="+b.socketOfB, "KTSN_RECEIVE=ring")
	}
	f.listener = start(t, to, "listener", listener)
	time.Sleep(200 * time.Millisecond) // for its start, and its ring
	talker := exec.Command(program(t, "tsnperf"), "talker", "--quiet", "--csv", f.talkerFile, "--to", at.String(), "--count", strconv.Itoa(count), "--cpu", senderCPU)
	if path.timed {
		talker.Args = append(talker.Args, "--lead", "1100us")
		talker.Env = b.preloaded(t)
	} else {
		talker.Args = append(talker.Args, "--no-txtime", "--spin", "200us")
	}
	f.talker = start(t, from, "talker", talker)
	f.finish(t)
	return f.timing(nil)
}

// comparePaths measures all of them in turns.
func (b *receivingBench) comparePaths(t *testing.T, wait string) {
	const count = 2000 + warmUp
	results := make([]timing, len(receivePaths))
	var busy, span time.Duration // of ktsnd of node b, which has nothing to do with what is received
	for range rounds {
		for i := range receivePaths {
			before, begin := processTime(t, b.daemonB.PID()), time.Now()
			results[i].add(b.exchange(t, &receivePaths[i], wait, count))
			if receivePaths[i].rings {
				busy, span = busy+processTime(t, b.daemonB.PID())-before, span+time.Since(begin)
			}
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
	}
	b.recordRatios(t, wait, results)
	record(t, limited(wait[2:]+", ktsnd of the receiving node at 1 kHz", cores(busy, span), "cores", 0.15))
}

// recordRatios are those that the limits are of.
func (b *receivingBench) recordRatios(t *testing.T, wait string, results []timing) {
	t.Helper()
	of := map[string]timing{}
	for i := range results {
		of[receivePaths[i].name] = results[i]
	}
	ratio := func(one, other string) (p50, p99 float64) {
		one50, one99 := percentiles(of[one].latencies)
		other50, other99 := percentiles(of[other].latencies)
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

// idle looks at a ktsnd whose pod waits at a ring.
func (b *receivingBench) idle(t *testing.T) {
	const span = 5 * time.Second
	b.side.tell(t, rings.Endpoint{Rings: true})
	listener := exec.Command(program(t, "tsnperf"), "listener", "--block", "--quiet", "--bind", atPodB.String(), "--first-timeout", "0")
	listener.Env = append(os.Environ(), "LD_PRELOAD="+program(t, "libktsn.so"), "KTSN_SOCKET="+b.socketOfB, "KTSN_RECEIVE=ring")
	started := start(t, b.PodB, "listener", listener)
	time.Sleep(time.Second)
	ktsnd, application := processTime(t, b.daemonB.PID()), processTime(t, started.PID())
	time.Sleep(span)
	record(t, limited("idle, ktsnd of the receiving node", cores(processTime(t, b.daemonB.PID())-ktsnd, span), "cores", 0.005),
		limited("idle, a listener that blocks at a ring", cores(processTime(t, started.PID())-application, span), "cores", 0.005))
}
