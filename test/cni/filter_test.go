// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/gopacket/gopacket/layers"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay/filter"
)

// dropCounters returns the packets that the node's filter has dropped, by reason.
func (n *node) dropCounters(t *testing.T) map[string]uint64 {
	t.Helper()
	all := map[string]uint64{}
	must(t, n.Do(func() error {
		list, err := filter.Counters()
		for _, counter := range list {
			all[counter.Reason] = counter.Packets
		}
		return err
	}))
	return all
}

// ktsnFilter restores the filter and returns the printed counters.
func (n *node) ktsnFilter(t *testing.T) string {
	t.Helper()
	return n.ktsnAlone(t, "node", "filter", "-o", "json")
}

// unguard removes the filter, like an administrator who flushes all rules.
func (n *node) unguard(t *testing.T) {
	t.Helper()
	must(t, n.Do(func() error {
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		for _, family := range []nftables.TableFamily{nftables.TableFamilyINet, nftables.TableFamilyNetdev} {
			conn.DelTable(conn.AddTable(&nftables.Table{Name: filter.Name, Family: family}))
		}
		return conn.Flush()
	}))
}

// masquerade makes the node forward the packets of its pods' first interface from its own address.
func (n *node) masquerade(t *testing.T) {
	t.Helper()
	must(t, n.Do(func() error {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
			return err
		}
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		table := conn.AddTable(&nftables.Table{Name: "theirs", Family: nftables.TableFamilyIPv4})
		chain := conn.AddChain(&nftables.Chain{Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT,
			Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource})
		name := make([]byte, unix.IFNAMSIZ)
		copy(name, uplinkName)
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: name}, &expr.Masq{}}})
		return conn.Flush()
	}))
}

// TestTunnelRejectsForgedPodSource sends packets like those of a tunnel from a pod on another network and from a
// program of the node. They arrive while the filters are missing, which shows that the test can fail.
func TestTunnelRejectsForgedPodSource(t *testing.T) {
	t.Parallel()
	r := newReachable(t)
	stranger := r.a.newPod(t)
	primary(t, stranger)
	r.a.masquerade(t)
	small := r.a.newPod(t)
	primary(t, small)
	on(t, small.Namespace, "eth0", func(link netlink.Link) error { return netlink.LinkSetMTU(link, 600) })
	for name, attack := range map[string]struct {
		as, victim *pod
		send       func(payload []byte)
		// by is the filter that must drop it, and the reason.
		by     *node
		reason string
	}{
		"a pod, to its own node": {r.b1, r.a1, func(payload []byte) { sendUDP(t, stranger.Namespace, r.a.address, payload) },
			r.a, filter.ReasonUplink},
		"a pod, to its own node, in fragments": {r.b1, r.a1, func(payload []byte) {
			sendUDP(t, small.Namespace, r.a.address, append(payload, make([]byte, 900)...))
		}, r.a, filter.ReasonUplink},
		"a pod, to the other node, in fragments": {r.a2, r.b1, func(payload []byte) {
			sendUDP(t, small.Namespace, r.b.address, append(payload, make([]byte, 900)...))
		}, r.a, filter.ReasonForwarded},
		"a pod, to the other node": {r.a2, r.b1, func(payload []byte) { sendUDP(t, stranger.Namespace, r.b.address, payload) },
			r.a, filter.ReasonForwarded},
		"a program of the node, to the other node": {r.a2, r.b1, func(payload []byte) { sendUDP(t, r.a.Namespace, r.b.address, payload) },
			r.a, filter.ReasonProgram},
	} {
		t.Run(name, func(t *testing.T) {
			forged := func(mark string) frame {
				return inFrame(t, macOf(t, attack.as.Namespace, podIf), r.address(attack.as, true), attack.victim, r.address(attack.victim, true), mark)
			}
			ear := listen(t, attack.victim)
			attack.by.unguard(t)
			attack.send(forged("forged before").encapsulate())
			r.exchange(t, attack.victim, "first end")
			if !ear.receives(t, "forged before", "first end") {
				t.Error("without the filter it does not arrive; the test proves nothing")
			}
			attack.victim.node.unlearn(t, attack.as)
			attack.by.ktsnFilter(t)
			before := attack.by.dropCounters(t)
			attack.send(forged("forged after").encapsulate())
			r.exchange(t, attack.victim, "second end")
			if ear.receives(t, "forged after", "second end") {
				t.Error("it arrives")
			}
			if after := attack.by.dropCounters(t); after[attack.reason] != before[attack.reason]+1 {
				t.Errorf("it was not dropped as %s: %v", attack.reason, after)
			}
		})
	}
}

// unlearn deletes the learned entry of a pod from the node's tunnel, so that it is learned again. The kernel's VXLAN
// device updates an entry's remote address from received packets but keeps the cached route of the old one: after a
// forged packet over the bridge of the pods' first interface it would send there.
func (n *node) unlearn(t *testing.T, p *pod) {
	t.Helper()
	mac := macOf(t, p.Namespace, podIf)
	on(t, n.Namespace, tunnelName, func(link netlink.Link) error {
		entries, err := netlink.NeighList(link.Attrs().Index, unix.AF_BRIDGE)
		if err != nil {
			return err
		}
		learnt := slices.IndexFunc(entries, func(entry netlink.Neigh) bool {
			return entry.IP != nil && slices.Equal(entry.HardwareAddr, mac)
		})
		if learnt < 0 {
			return fmt.Errorf("%s has not learnt where %s is", tunnelName, mac)
		}
		return netlink.NeighDel(&netlink.Neigh{LinkIndex: link.Attrs().Index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF,
			HardwareAddr: mac, IP: entries[learnt].IP})
	})
}

// exchange sends an allowed datagram from the pod of the other node to the pod.
func (r *reachable) exchange(t *testing.T, to *pod, text string) {
	t.Helper()
	from := r.b1
	if to == r.b1 {
		from = r.a1
	}
	must(t, from.Do(func() error {
		return sendText(netip.AddrPortFrom(r.address(to, true), 7789), text)
	}))
}

// TestTunnelAcceptsOnlyPeersAndTheirSubnets sends packets over the wire to node b.
func TestTunnelAcceptsOnlyPeersAndTheirSubnets(t *testing.T) {
	t.Parallel()
	r := newReachable(t)
	const local, elsewhere, stranger = "192.0.2.1", "10.42.9.9", "02:00:00:00:00:77"
	r.b.ktsn(t, "node", "peers", "add", "--vni", "42", local, "10.42.1.0/24", "fd00:42:1::/64")
	mac := macOf(t, r.a1.Namespace, podIf)
	ipv4, ipv6, linkLocal := r.address(r.a1, true), r.address(r.a1, false), netip.MustParseAddr("fe80::77")
	target, target6 := r.address(r.b1, true), r.address(r.b1, false)
	other, other6 := netip.MustParseAddr(elsewhere), netip.MustParseAddr("fd00:42:9::9")
	udp := func(from, to netip.Addr, tags ...layers.EthernetType) func(string) frame {
		return func(mark string) frame { return inFrame(t, mac, from, r.b1, to, mark, tags...) }
	}
	arp := func(sender netip.Addr) func(string) frame {
		return func(mark string) frame { return arpFrame(t, mac, sender, mark) }
	}
	neighbor := func(address netip.Addr) func(string) frame {
		return func(mark string) frame {
			return discovery(t, layers.ICMPv6TypeNeighborAdvertisement, mac, linkLocal, address, 0, mark)
		}
	}
	const tag, outer = layers.EthernetTypeDot1Q, layers.EthernetTypeQinQ
	on(t, r.b.Namespace, uplinkName, func(link netlink.Link) error {
		address, err := netlink.ParseAddr(ipv6OfB.String())
		if err != nil {
			return err
		}
		address.Flags = unix.IFA_F_NODAD
		return netlink.AddrAdd(link, address)
	})
	ear, count := listen(t, r.b1), 0
	check := func(name, source string, forge func(string) frame, reason string) {
		t.Helper()
		count++
		mark, end := fmt.Sprintf("forged %d.", count), fmt.Sprintf("end %d.", count)
		before := r.b.dropCounters(t)
		r.onWire(t, netip.MustParseAddr(source), forge(mark).encapsulate())
		r.onWire(t, r.a.address, udp(ipv4, target)(end).encapsulate())
		if arrives := ear.receives(t, mark, end); arrives != (reason == "") {
			t.Errorf("%s: it arrives: %v", name, arrives)
		}
		if after := r.b.dropCounters(t); reason != "" && after[reason] != before[reason]+1 {
			t.Errorf("%s: it was not dropped as %s: %v", name, reason, after)
		}
	}
	for name, test := range map[string]struct {
		source string
		forge  func(mark string) frame
		reason string
	}{
		"a pod's own IPv4 address":                 {local, udp(ipv4, target), ""},
		"a pod's own IPv6 address":                 {local, udp(ipv6, target6), ""},
		"own address in a VLAN frame":              {local, udp(ipv4, target, tag), ""},
		"a pod's own address by ARP":               {local, arp(ipv4), ""},
		"no address yet by ARP":                    {local, arp(netip.IPv4Unspecified()), ""},
		"a pod's own address as neighbour":         {local, neighbor(ipv6), ""},
		"a link-local address as neighbour":        {local, neighbor(linkLocal), ""},
		"another node's address":                   {local, udp(other, target), filter.ReasonSource},
		"another node's IPv6 address":              {local, udp(other6, target6), filter.ReasonSource},
		"an address of this node's pods":           {local, udp(r.address(r.b1, true), target), filter.ReasonSource},
		"other pod's address in a VLAN frame":      {local, udp(other, target, tag), filter.ReasonSource},
		"other pod's IPv6 address in a VLAN frame": {local, udp(other6, target6, outer), filter.ReasonSource},
		"own address after two VLAN tags":          {local, udp(ipv4, target, outer, tag), filter.ReasonSource},
		"other pod's address by ARP":               {local, arp(other), filter.ReasonSource},
		"other pod's address by ND":                {local, neighbor(other6), filter.ReasonSource},
		"over IPv6":                                {"fd00:ff::1", udp(ipv4, target), filter.ReasonIPv6},
		"from a node that is no peer":              {"192.0.2.77", udp(ipv4, target), filter.ReasonPeer},
		"forged source of this node":               {"192.0.2.2", udp(ipv4, target), ""},
	} {
		if test.source == "192.0.2.2" {
			continue // the kernel drops packets from its own address before any filter
		}
		check(name, test.source, test.forge, test.reason)
	}
	t.Run("the kernel listens for the tunnel on IPv4 only", func(t *testing.T) {
		if !r.b.listensOn(t, "udp", tunnelPort) || r.b.listensOn(t, "udp6", tunnelPort) {
			t.Error("its sockets differ")
		}
	})
	t.Run("peers are added and removed", func(t *testing.T) {
		r.b.ktsn(t, "node", "peers", "add", "--vni", "42", "192.0.2.77", "10.42.9.0/24")
		check("a new peer", "192.0.2.77", udp(other, target), "")
		check("a new peer as the old one's pod", "192.0.2.77", udp(ipv4, target), filter.ReasonSource)
		r.b.ktsn(t, "node", "peers", "add", "--vni", "42", "192.0.2.77", "10.42.8.0/24")
		check("with other subnets", "192.0.2.77", udp(other, target), filter.ReasonSource)
		r.b.ktsn(t, "node", "peers", "del", "--vni", "42", "192.0.2.77")
		check("it is none any more", "192.0.2.77", udp(other, target), filter.ReasonPeer)
	})
	t.Run("a hardware address of this node's pods stays at its port", func(t *testing.T) {
		podMAC := macOf(t, r.b1.Namespace, podIf)
		r.onWire(t, r.a.address, inFrame(t, podMAC, ipv4, r.b1, target, "stolen").encapsulate())
		r.onWire(t, r.a.address, udp(ipv4, target)("not stolen").encapsulate())
		ear.receives(t, "", "not stolen")
		on(t, r.b.Namespace, tunnelName, func(link netlink.Link) error {
			entries, err := netlink.NeighList(link.Attrs().Index, unix.AF_BRIDGE)
			if slices.ContainsFunc(entries, func(entry netlink.Neigh) bool {
				// The tunnel's own table only applies to the bridge's frames.
				return entry.MasterIndex != 0 && entry.HardwareAddr.String() == podMAC.String()
			}) {
				t.Error("the bridge sends the pod's frames into the tunnel")
			}
			return err
		})
		ping(t, r.a1, target, 56)
	})
}

// listensOn reports whether a UDP socket of the node, including those of the kernel, has the port. The protocol is
// "udp" or "udp6".
func (n *node) listensOn(t *testing.T, protocol string, port uint16) bool {
	t.Helper()
	sockets := within(t, n, func() ([]byte, error) { return os.ReadFile("/proc/thread-self/net/" + protocol) })
	// A line begins with a number, the local address and the port in hexadecimal digits.
	return regexp.MustCompile(fmt.Sprintf(`(?m)^ *\d+: [0-9A-F]+:%04X `, port)).Match(sockets)
}

// TestFilterIsRestored checks that each component that runs restores the filter.
func TestFilterIsRestored(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	first, second := lab.a.newPod(t), lab.a.newPod(t)
	config := lab.a.config(nil)
	configs := list(t, config)
	first.add(t, config)
	for name, repair := range map[string]func(){
		"by ADD":         func() { second.add(t, config); second.del(t, config) },
		"by peers":       func() { lab.a.ktsn(t, "node", "peers", "add", "--vni", "42", "192.0.2.2", "10.42.2.0/24") },
		"by restore":     func() { lab.a.ktsn(t, "node", "restore") },
		"by who asks it": func() { lab.a.ktsnFilter(t) },
	} {
		t.Run(name, func(t *testing.T) {
			must(t, lab.a.runtime.CheckNetworkList(t.Context(), configs, first.attachment()))
			lab.a.unguard(t)
			err := lab.a.runtime.CheckNetworkList(t.Context(), configs, first.attachment())
			checkRefused(t, err, 106, "the filter of tunnels: it is missing; the filter of tunnels: pods can reach the node by bridge tsnbr42")
			repair()
			must(t, lab.a.runtime.CheckNetworkList(t.Context(), configs, first.attachment()))
		})
	}
}

// TestBridgeDoesNotReachNode sends from a pod to the node's address over the interface of the network, from the address
// of its first interface, as IP_UNICAST_IF allows.
func TestBridgeDoesNotReachNode(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod, opener, closer := lab.a.newPod(t), lab.a.newPod(t), lab.a.newPod(t)
	primary(t, pod)
	pod.add(t, lab.a.config(fields{"sysctl": fields{"net.ipv4.neigh.IFNAME.mcast_solicit": "1", "net.ipv4.neigh.IFNAME.retrans_time_ms": "200"}}))
	service := lab.a.serve(t)
	reach := func(when string, want bool) {
		t.Helper()
		must(t, pod.Do(func() error { return sendBy(podIf, lab.a.address, service.port(), when) }))
		must(t, lab.a.Do(func() error {
			return sendText(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), service.port()), "end "+when)
		}))
		if got := service.receives(t, when, "end "+when); got != want {
			t.Errorf("%s: the pod's datagram reaches the node: %v", when, got)
		}
		if knows := pod.knowsNeighbor(t, lab.a.address); knows != want {
			t.Errorf("%s: the pod knows the node's hardware address: %v", when, knows)
		}
	}
	reach("a network without a setting", false)
	opener.add(t, lab.a.config(fields{"nodeAccess": true}))
	pod.forgetNeighbors(t)
	reach("a network that lets its pods", true)
	closer.add(t, lab.a.config(nil))
	pod.forgetNeighbors(t)
	reach("a network that does not any more", false)
	lab.a.unguard(t)
	reach("a network without filter", false) // nobody answers ARP
	checkNode := filepath.Join("/proc/sys/net/ipv4/conf", bridgeName, "arp_ignore")
	must(t, lab.a.Do(func() error { return os.WriteFile(checkNode, []byte("0"), 0) }))
	pod.forgetNeighbors(t)
	reach("a network without filter whose node answers", true)
	if out := lab.a.ktsnFilter(t); !strings.Contains(out, filter.ReasonToNode) {
		t.Errorf("ktsn node filter prints %s", out)
	}
	must(t, pod.Do(func() error { return sendBy(podIf, lab.a.address, service.port(), "once more") }))
	if dropped := lab.a.dropCounters(t); dropped[filter.ReasonToNode] == 0 {
		t.Errorf("it was not dropped at the bridge: %v", dropped)
	}
	if err := lab.a.Do(func() error { return sendBy(bridgeName, netip.MustParseAddr("10.42.1.2"), 7788, "to a pod") }); err == nil ||
		!strings.Contains(err.Error(), "operation not permitted") {
		t.Errorf("a program of the node sends into the bridge: %v", err)
	}
}

// TestNodeWithAccessReachesPods sends from a program of the node through the bridge and the tunnel.
func TestNodeWithAccessReachesPods(t *testing.T) {
	t.Parallel()
	r := newReachable(t)
	opener := r.a.newPod(t)
	opener.add(t, r.a.config(fields{"nodeAccess": true}))
	on(t, r.a.Namespace, bridgeName, func(link netlink.Link) error {
		return netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 42, 1, 250), Mask: net.CIDRMask(16, 32)}})
	})
	for name, to := range map[string]*pod{"of its own": r.a2, "of the other node": r.b1} {
		t.Run(name, func(t *testing.T) {
			service, target := to.serve(t), r.address(to, true)
			must(t, r.a.Do(func() error { return sendText(netip.AddrPortFrom(target, service.port()), "from the node") }))
			service.receives(t, "", "from the node")
		})
	}
}
