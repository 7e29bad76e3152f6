// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"net/netip"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// neighborAddress is the address of a second pod on node a.
var neighborAddress = netip.MustParseAddr("10.42.1.3")

// ip runs iproute2 in a node or pod.
func ip(t *testing.T, where *topology.Namespace, arguments ...string) {
	t.Helper()
	command := exec.Command("ip", append([]string{"-n", where.Name()}, arguments...)...)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", command, err, output)
	}
}

// addNeighbor attaches a second pod to node a's bridge.
func (l *lab) addNeighbor(t *testing.T) *topology.Namespace {
	t.Helper()
	return addPod(t, l.NodeA, "2", neighborAddress)
}

// addPod attaches a pod to a node's bridge.
func addPod(t *testing.T, node *topology.Namespace, name string, address netip.Addr) *topology.Namespace {
	t.Helper()
	pod := newNamespace(t, node.Name()+"-"+name)
	ip(t, node, "link", "add", "pod"+name, "mtu", "1450", "type", "veth", "peer", "name", topology.PodInterface,
		"netns", pod.Name())
	ip(t, node, "link", "set", "pod"+name, "master", topology.BridgeName, "up")
	ip(t, pod, "address", "add", address.String()+"/16", "dev", topology.PodInterface)
	ip(t, pod, "link", "set", topology.PodInterface, "up", "mtu", "1450")
	return pod
}

// onBridge adds a pod of node a and the bridge to the others to ktsnd.
func onBridge(t *testing.T, client *control.Client, identity string, pod *topology.Namespace) {
	t.Helper()
	_ = client.EndpointDel(t.Context(), identity, topology.PodInterface)
	onBridgeWith(t, client, identity, pod, nil)
}

// onBridgeWith adds a pod that may use the addresses of sources, any if it is nil, or changes them.
func onBridgeWith(t *testing.T, client *control.Client, identity string, pod *topology.Namespace, sources *control.Sources) {
	t.Helper()
	must(t, client.EndpointAdd(t.Context(), control.Endpoint{Identity: identity, Interface: topology.PodInterface, Netns: pod.Path(),
		VNI: topology.VNI, Bridge: topology.BridgeName, Sources: sources}))
}

func TestMessagesToSameNodeStayOffTheWire(t *testing.T) {
	content(t)
	lab := newLab(t)
	neighbor := lab.addNeighbor(t)
	_, client := lab.startDaemon(t, "--stale-after", "5s") // on a busy machine a message may wait for its receiver
	onBridge(t, client, "neighbor", neighbor)
	onBridge(t, client, identity, lab.PodA)
	listener := listen(t, neighbor, "udp4", netip.AddrPortFrom(neighborAddress, listenPort))
	defer listener.Close()
	tap := lab.openTap(t, 100)
	command := exec.Command(program(t, "ktsn-test-send"), append(connectedTo(netip.AddrPortFrom(neighborAddress, listenPort)),
		"900000:third", "300000:first", "600000:second")...)
	command.Env = lab.preloaded(t)
	began := time.Now()
	must(t, finish(t, start(t, lab.PodA, "ktsn-test-send", command)))
	buffer := make([]byte, 100)
	for _, want := range []string{"first", "second", "third"} {
		_ = listener.SetReadDeadline(time.Now().Add(patience))
		length, source, err := listener.ReadFromUDPAddrPort(buffer)
		if err != nil {
			t.Fatalf("%q: %v; ktsnd counted %+v", want, err, counters(t, client))
		}
		if got := string(buffer[:length]); got != want || source.Addr() != topology.PodAddressA {
			t.Errorf("got %q from %v, want %q from %v", got, source, want, topology.PodAddressA)
		}
	}
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("the last arrived after %v", took)
	}
	if counters := awaitSettled(t, client); counters.SentBridge != 3 || counters.Sent != 3 {
		t.Errorf("counted %+v", counters)
	}
	seen := &observed{}
	seen.addPackets(t, tap)
	if len(seen.packets) > 0 {
		t.Errorf("%d frames on the wire, want none", len(seen.packets))
	}
}

// TestSameNodeLossesAreCounted checks that each message that does not reach a pod of the node is counted.
func TestSameNodeLossesAreCounted(t *testing.T) {
	content(t)
	lab := newLab(t)
	neighbor := lab.addNeighbor(t)
	// So small that most frames wait until they are dropped.
	_, client := lab.startDaemon(t, "--receiver-quota", "1", "--stale-after", "5ms")
	onBridge(t, client, "neighbor", neighbor)
	onBridge(t, client, identity, lab.PodA)
	at := netip.AddrPortFrom(neighborAddress, listenPort)
	f := listenFor(t, neighbor, at, unlimited)
	f.talker = lab.startTalker(t, f.talkerFile, "--to", at.String(), "--cycle", "200us", "--lead", "2ms")
	// The time until the quota is used up depends on the machine.
	awaitCounters(t, client, "messages are lost", func(c control.Counters) bool { return c.DeliveryFailed+c.Dropped() > 0 })
	awaitTaken(t, client, 2000)
	f.end(t, client)
	counted := awaitSettled(t, client)
	lost := uint64(len(f.lost(t)))
	if missing := counted.DeliveryFailed + counted.Dropped(); lost == 0 || lost != missing {
		t.Errorf("%d of %d messages are lost, and %d are counted: %+v", lost, len(f.sent), missing, counted)
	}
}

// talkToNeighbor sends timed messages to the neighbor, which has a socket for them, until the test ends.
func talkToNeighbor(t *testing.T, lab *lab, neighbor *topology.Namespace) {
	t.Helper()
	at := netip.AddrPortFrom(neighborAddress, listenPort)
	listener := listen(t, neighbor, "udp4", at)
	t.Cleanup(func() { listener.Close() })
	lab.startTalker(t, filepath.Join(t.TempDir(), "talker.csv"), "--to", at.String(), "--cycle", "10ms", "--lead", "5ms")
}

// TestReceiverOfSameNodeReturns removes the receiver and adds it again while the talker keeps its socket.
func TestReceiverOfSameNodeReturns(t *testing.T) {
	content(t)
	lab := newLab(t)
	neighbor := lab.addNeighbor(t)
	_, client := lab.startDaemon(t, "--stale-after", "5s")
	onBridge(t, client, "neighbor", neighbor)
	onBridge(t, client, identity, lab.PodA)
	talkToNeighbor(t, lab, neighbor)
	awaitCounters(t, client, "messages reach the neighbor", func(c control.Counters) bool { return c.SentBridge >= 20 })
	must(t, client.EndpointDel(t.Context(), "neighbor", topology.PodInterface))
	awaitCounters(t, client, "messages to no receiver are dropped", func(c control.Counters) bool { return c.DropClosed >= 20 })
	sent := counters(t, client).SentBridge
	onBridge(t, client, "neighbor", neighbor)
	awaitCounters(t, client, "messages reach the neighbor again", func(c control.Counters) bool { return c.SentBridge >= sent+20 })
}

// TestReceiverOfForeignAddress has a pod that adds the address of another one to its interface, as CAP_NET_ADMIN allows.
func TestReceiverOfForeignAddress(t *testing.T) {
	content(t)
	lab := newLab(t)
	thiefAddress := netip.MustParseAddr("10.42.1.4")
	neighbor, thief := lab.addNeighbor(t), addPod(t, lab.NodeA, "3", thiefAddress)
	ip(t, thief, "address", "add", neighborAddress.String()+"/32", "dev", topology.PodInterface)
	limited := &control.Sources{Addresses: []netip.Prefix{netip.PrefixFrom(thiefAddress, 32)}}
	_, client := lab.startDaemon(t, "--stale-after", "5s")
	onBridgeWith(t, client, "thief", thief, limited)
	onBridge(t, client, "neighbor", neighbor)
	onBridge(t, client, identity, lab.PodA)
	talkToNeighbor(t, lab, neighbor)
	more := func(what string, count func(control.Counters) uint64) {
		t.Helper()
		before := count(counters(t, client))
		awaitCounters(t, client, what, func(c control.Counters) bool { return count(c) >= before+20 })
	}
	sent := func(c control.Counters) uint64 { return c.SentBridge }
	dropped := func(c control.Counters) uint64 { return c.DropClosed }
	more("messages reach the neighbor", sent)
	must(t, client.EndpointDel(t.Context(), "neighbor", topology.PodInterface))
	more("messages to no receiver are dropped", dropped)
	onBridge(t, client, "thief", thief)
	more("a pod may use any address", sent)
	onBridgeWith(t, client, "thief", thief, limited)
	more("it may not use that one any more", dropped)
	onBridgeWith(t, client, "thief", thief, &control.Sources{Addresses: []netip.Prefix{netip.PrefixFrom(neighborAddress, 32)}})
	more("it may use only that one", sent)
}

// TestSameNodeMessagesKeepOrder replaces ktsnd while messages are sent.
func TestSameNodeMessagesKeepOrder(t *testing.T) {
	timing(t)
	lab := newLab(t)
	neighbor := lab.addNeighbor(t)
	// On a busy machine the receiver's thread may not run for longer than 100 ms.
	daemon, client := lab.startDaemon(t, "--stale-after", "5s")
	onBridge(t, client, "neighbor", neighbor)
	onBridge(t, client, identity, lab.PodA)
	at := netip.AddrPortFrom(neighborAddress, listenPort)
	f := listenFor(t, neighbor, at, unlimited)
	f.talker = lab.startTalker(t, f.talkerFile, "--to", at.String(), "--cycle", "200us", "--lead", "2ms")
	for range 3 {
		awaitTaken(t, client, 500)
		daemon, client = lab.takeOver(t, daemon, "--stale-after", "5s")
	}
	awaitTaken(t, client, 500)
	f.end(t, client)
	if lost := f.lost(t); len(lost) > 0 {
		t.Errorf("%d messages are lost", len(lost))
	}
	for i := 1; i < len(f.received); i++ {
		if f.received[i].Sequence < f.received[i-1].Sequence {
			t.Fatalf("message %d arrived after %d:%s", f.received[i].Sequence, f.received[i-1].Sequence, arrivals(f.received, i))
		}
	}
	if failed := awaitSettled(t, client).DeliveryFailed; failed != 0 {
		t.Errorf("%d frames did not reach their receiver", failed)
	}
}
