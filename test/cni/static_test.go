// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay/filter"
)

// Addresses that a pod keeps on any node.
var (
	static4 = netip.MustParseAddr("10.42.255.7")
	static6 = netip.MustParseAddr("fd00:42:ffff::7")
)

// movers are the pod line/plc-0 on each node, of which one at a time has the static addresses.
type movers struct {
	*reachable
	b2 *pod
}

func newMovers(t *testing.T) *movers {
	t.Helper()
	lab := newLinkLab(t)
	lab.a.runRelays(t)
	lab.b.runRelays(t)
	m := &movers{reachable: lab.reachable(t)}
	m.b2 = lab.b.newPod(t)
	m.addresses[m.b2] = m.b2.add(t, lab.b.config(fields{"ipam": lab.b.dualStack()}))
	lab.a.awaitTaps(t, m.a1, m.a2)
	lab.b.awaitTaps(t, m.b1, m.b2)
	return m
}

// staticPod is the pod that has the addresses.
const staticPod = "line/plc-0"

// place gives the addresses to the pod on a node, as operator and agents do: they write who has them, and each node knows the other as its peer.
func (m *movers) place(t *testing.T, at *node) {
	t.Helper()
	names := map[*node]string{m.a: "a", m.b: "b"}
	for _, n := range []*node{m.a, m.b} {
		owners := &attachment.AddressOwners{Node: names[n]}
		for _, address := range []netip.Addr{static4, static6} {
			owners.Addresses = append(owners.Addresses, attachment.AddressOwner{Address: address, Node: names[at], Pod: staticPod})
		}
		must(t, attachment.WriteAddressOwners(filepath.Join(n.dir, "state"), networkName, owners))
	}
	m.tellPeers(t, at)
}

func (m *movers) tellPeers(t *testing.T, at *node) {
	t.Helper()
	for n, other := range map[*node]*node{m.a: m.b, m.b: m.a} {
		third := other.subnet.Addr().As4()[2]
		subnets := []string{other.subnet.String(), fmt.Sprintf("fd00:42:%d::/64", third)}
		if other == at {
			subnets = append(subnets, static4.String()+"/32", static6.String()+"/128")
		}
		n.ktsn(t, append([]string{"node", "peers", "add", "--vni", "42", other.address.String()}, subnets...)...)
	}
}

// moverConfig is the network's configuration with static ranges.
func moverConfig(n *node) map[string]any {
	return n.config(fields{"ipam": n.dualStack(), "static": []string{"10.42.255.0/24", "fd00:42:ffff::/64"}})
}

// requests returns the runtime configuration of a pod that requests addresses.
func (p *pod) requests(name string, ips ...string) *libcni.RuntimeConf {
	at := p.attachment()
	at.Args = [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "line"}, {"K8S_POD_NAME", name}, {"K8S_POD_UID", p.identity()}}
	at.Args = append(at.Args, [2]string{"IP", strings.Join(ips, ",")}) // as Multus does
	at.CapabilityArgs = map[string]any{"ips": ips}
	return at
}

// mover attaches line/plc-0 on a node.
func (m *movers) mover(t *testing.T, n *node) *pod {
	t.Helper()
	pod := n.newPod(t)
	answer, err := n.runtime.AddNetworkList(t.Context(), list(t, moverConfig(n)), pod.requests("plc-0", static4.String()+"/16", static6.String()))
	must(t, err)
	m.addresses[pod], err = current.GetResult(answer)
	must(t, err)
	t.Cleanup(func() { m.leave(t, pod) })
	return pod
}

// leave deletes the pod. It can be repeated.
func (m *movers) leave(t *testing.T, pod *pod) {
	t.Helper()
	must(t, pod.node.runtime.DelNetworkList(context.Background(), list(t, moverConfig(pod.node)), pod.requests("plc-0", static4.String()+"/16", static6.String())))
}

// talk starts timed talkers to the static addresses on both nodes: with libktsn.so, and without it, so that their frames are captured.
func (m *movers) talk(t *testing.T) {
	t.Helper()
	for _, address := range []netip.Addr{static4, static6} {
		arguments := []string{"talker", "--quiet", "--count", "100000", "--cycle", "20ms", "--lead", "5ms", "--to", netip.AddrPortFrom(address, 7788).String()}
		for _, from := range []*pod{m.a1, m.b1} {
			startTalker(t, from, from.socket(), arguments[2:]...)
		}
		for _, from := range []*pod{m.a2, m.b2} {
			start(t, from, "talker", exec.Command(program(t, "tsnperf"), arguments...))
		}
	}
}

// awaitTalkers returns once 20 timed messages of each talker have arrived at a pod.
func (m *movers) awaitTalkers(t *testing.T, at *pod) {
	t.Helper()
	began := time.Now()
	for _, address := range []netip.Addr{static4, static6} {
		conn := within(t, at, func() (*net.UDPConn, error) {
			return net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(address, 7788)))
		})
		defer conn.Close()
		must(t, conn.SetReadDeadline(time.Now().Add(patience)))
		arrived := map[netip.Addr]int{}
		for _, from := range []*pod{m.a1, m.a2, m.b1, m.b2} {
			arrived[m.address(from, address.Is4())] = 0
		}
		buffer := make([]byte, 2000)
		for slices.ContainsFunc(slicesOf(arrived), func(count int) bool { return count < 20 }) {
			_, source, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				t.Fatalf("timed messages to %s on node %s: %v; arrived %v; ktsnd of a has %+v, of b %+v", address, at.node.Name(), err, arrived, m.a.counters(t), m.b.counters(t))
			}
			arrived[source.Addr().Unmap()]++
		}
	}
	t.Logf("timed messages of all talkers after %v", time.Since(began))
}

func slicesOf(counts map[netip.Addr]int) (all []int) {
	for _, count := range counts {
		all = append(all, count)
	}
	return all
}

// checkReachable exchanges other traffic with the pod, both ways.
func (m *movers) checkReachable(t *testing.T, mover *pod) {
	t.Helper()
	for _, other := range []*pod{m.a1, m.b1} {
		for _, ipv4 := range families {
			address := map[bool]netip.Addr{true: static4, false: static6}[ipv4]
			ping(t, other, address, 56)
			ping(t, mover, m.address(other, ipv4), 56)
			checkUDP(t, other, mover, m.address(other, ipv4), address, 100)
			checkTCP(t, other, mover, address)
		}
	}
}

// TestStaticAddressMoves moves a pod from node to node and back. The talkers keep their sockets: for each of them the pod is on its own node at
// times, and on the other one.
func TestStaticAddressMoves(t *testing.T) {
	t.Parallel()
	m := newMovers(t)
	m.place(t, m.a)
	mover := m.mover(t, m.a)
	if got := fmt.Sprint(m.addresses[mover].IPs[0].Address.String(), " ", m.addresses[mover].IPs[1].Address.String()); got != "10.42.255.7/32 fd00:42:ffff::7/128" {
		t.Errorf("the addresses are %s", got)
	}
	must(t, m.a.runtime.CheckNetworkList(t.Context(), list(t, moverConfig(m.a)), mover.requests("plc-0", static4.String()+"/16", static6.String())))
	m.talk(t)
	for _, next := range []*node{m.b, m.a, m.b} {
		m.awaitTalkers(t, mover)
		m.checkReachable(t, mover)
		m.leave(t, mover)
		m.place(t, next)
		mover = m.mover(t, next)
	}
	m.awaitTalkers(t, mover)
	m.checkReachable(t, mover)
}

// TestStaticAddressOfFormerNodeIsDropped has the addresses move while the former pod still runs, as on a node that the cluster has lost.
func TestStaticAddressOfFormerNodeIsDropped(t *testing.T) {
	t.Parallel()
	m := newMovers(t)
	m.place(t, m.a)
	former := m.mover(t, m.a)
	sources := map[bool]netip.Addr{true: static4, false: static6}
	for ipv4, source := range sources { // the former pod learns its neighbour, which would not answer it later
		checkUDP(t, former, m.b1, source, m.address(m.b1, ipv4), 100)
	}
	m.place(t, m.b)
	mover := m.mover(t, m.b)
	for ipv4, source := range sources {
		ear := listenUDP(t, m.b1, m.address(m.b1, ipv4))
		send := func(from *pod, text string) {
			_, err := listenUDP(t, from, source).WriteTo([]byte(text), ear.LocalAddr())
			must(t, err)
		}
		const sent = 20 // more than ARP and neighbour discovery of the former pod
		before := m.b.dropCounters(t)[filter.ReasonSource]
		for range sent {
			send(former, "former")
		}
		dropped := func() uint64 { return m.b.dropCounters(t)[filter.ReasonSource] - before }
		for deadline := time.Now().Add(patience); dropped() < sent && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		if got := dropped(); got < sent {
			t.Fatalf("node b dropped %d of %d datagrams of the former pod from %s", got, sent, source)
		}
		send(mover, "mover")
		buffer := make([]byte, 100)
		length, _, err := ear.ReadFromUDPAddrPort(buffer)
		if err != nil || string(buffer[:length]) != "mover" {
			t.Errorf("%q arrived from %s, %v; want that of the mover only", buffer[:length], source, err)
		}
	}
}

// TestLearntPlaceIsForgotten checks that a tunnel forgets where the pod was, in case the filter dropped its announcement from the new node.
func TestLearntPlaceIsForgotten(t *testing.T) {
	t.Parallel()
	m := newMovers(t)
	m.place(t, m.b)
	mover := m.mover(t, m.b)
	ping(t, m.a1, static4, 56)
	mac := macOf(t, mover.Namespace, podIf)
	learnt := func() bool {
		entries := within(t, m.a, func() ([]netlink.Neigh, error) {
			link, err := netlink.LinkByName(tunnelName)
			if err != nil {
				return nil, err
			}
			return netlink.NeighList(link.Attrs().Index, unix.AF_BRIDGE)
		})
		return slices.ContainsFunc(entries, func(entry netlink.Neigh) bool { return entry.IP != nil && entry.HardwareAddr.String() == mac.String() })
	}
	if !learnt() {
		t.Fatal("the tunnel of node a has not learnt the pod's place; the test proves nothing")
	}
	m.tellPeers(t, m.a)
	if learnt() {
		t.Error("the tunnel of node a still leads to node b")
	}
}

func TestStaticAddressRefusals(t *testing.T) {
	t.Parallel()
	m := newMovers(t)
	m.place(t, m.a)
	state := filepath.Join(m.a.dir, "state")
	owners, err := attachment.ReadAddressOwners(state, networkName)
	must(t, err)
	owners.Addresses = append(owners.Addresses, attachment.AddressOwner{Address: netip.MustParseAddr("10.42.255.9"), Node: "a", Pod: "line/plc-2", UID: "earlier"})
	must(t, attachment.WriteAddressOwners(state, networkName, &owners))
	for name, test := range map[string]struct {
		node *node
		pod  string
		ips  []string
		want string
	}{
		"another pod has it":      {m.a, "plc-1", []string{"10.42.255.7/16"}, "pod line/plc-0 on node a has it"},
		"not given to the node":   {m.b, "plc-0", []string{"10.42.255.7"}, "the pod of this name on node a has it"},
		"an earlier pod has it":   {m.a, "plc-2", []string{"10.42.255.9"}, "an earlier pod of this name has it"},
		"given to nobody":         {m.a, "plc-0", []string{"10.42.255.8"}, "the operator has not given it to pod line/plc-0"},
		"two of a family":         {m.a, "plc-0", []string{"10.42.255.7", "10.42.255.8"}, "one static address of a family"},
		"another node's":          {m.a, "plc-0", []string{"10.42.2.7"}, "failed to allocate all requested IPs: 10.42.2.7"},
		"with one of this subnet": {m.a, "plc-0", []string{"10.42.255.7", "10.42.1.77"}, "one static address of a family"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := test.node.newPod(t)
			err := test.node.attach(list(t, moverConfig(test.node)), pod.requests(test.pod, test.ips...))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("ADD reports %v, want %q", err, test.want)
			}
		})
	}
}

// TestStaticAddressWithSubnetAddress requests a static address of one family only, and waits for it.
func TestStaticAddressWithSubnetAddress(t *testing.T) {
	t.Parallel()
	m := newMovers(t)
	pod := m.a.newPod(t)
	go func() {
		time.Sleep(500 * time.Millisecond)
		_ = attachment.WriteAddressOwners(filepath.Join(m.a.dir, "state"), networkName,
			&attachment.AddressOwners{Node: "a", Addresses: []attachment.AddressOwner{{Address: static4, Node: "a", Pod: "line/plc-0"}}})
	}()
	at := pod.requests("plc-0", static4.String())
	answer, err := m.a.runtime.AddNetworkList(t.Context(), list(t, moverConfig(m.a)), at)
	must(t, err)
	result, err := current.GetResult(answer)
	must(t, err)
	if got := addressOf(result, true); got != static4 {
		t.Errorf("the address is %s", got)
	}
	if got := addressOf(result, false); !netip.MustParsePrefix("fd00:42:1::/64").Contains(got) {
		t.Errorf("the address of IPv6 is %s, want that of the node's subnet", got)
	}
	must(t, m.a.runtime.CheckNetworkList(t.Context(), list(t, moverConfig(m.a)), at))
	must(t, m.a.runtime.DelNetworkList(t.Context(), list(t, moverConfig(m.a)), at))
}
