// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

const neighborsFilter = "ktsn_neighbors"

// arpOf returns an ARP or RARP packet of a sender to one receiver or to all.
func arpOf(t *testing.T, etherType layers.EthernetType, operation uint16, from net.HardwareAddr, sender netip.Addr, to net.HardwareAddr, target netip.Addr, mark string, tags ...layers.EthernetType) frame {
	t.Helper()
	return ethernet(t, from, to, etherType, tags, &layers.ARP{
		AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: operation,
		SourceHwAddress: from, SourceProtAddress: sender.AsSlice(), DstHwAddress: to, DstProtAddress: target.AsSlice(),
	}, gopacket.Payload(mark))
}

// discovery returns a neighbour discovery message after a number of destination option headers.
func discovery(t *testing.T, kind uint8, from net.HardwareAddr, source netip.Addr, target netip.Addr, extensions int, mark string) frame {
	t.Helper()
	body := append(make([]byte, 4), target.AsSlice()...)
	option := byte(1)
	switch kind {
	case layers.ICMPv6TypeNeighborAdvertisement:
		option, body[0] = 2, 0x20 // override
	case layers.ICMPv6TypeRouterSolicitation:
		body = body[:4]
	}
	body = append(append(body, option, 1), from...)
	padded := make([]byte, (2+len(mark)+7)/8*8) // as an unknown option
	padded[0], padded[1] = 253, byte(len(padded)/8)
	copy(padded[2:], mark)
	body = append(body, padded...)
	ip := &layers.IPv6{Version: 6, HopLimit: 255, NextHeader: layers.IPProtocolICMPv6, SrcIP: source.AsSlice(), DstIP: net.ParseIP("ff02::1")}
	icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(kind, 0)}
	must(t, icmp.SetNetworkLayerForChecksum(ip))
	inside := serialize(t, icmp, gopacket.Payload(body))
	for range extensions {
		inside = append([]byte{byte(ip.NextHeader), 0, 1, 4, 0, 0, 0, 0}, inside...)
		ip.NextHeader = layers.IPProtocolIPv6Destination
	}
	return ethernet(t, from, net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}, layers.EthernetTypeIPv6, nil, ip, gopacket.Payload(inside))
}

// endOf returns the mark of the frame that is sent after another one. It differs from that one's mark.
func endOf(mark string) string { return "end of " + strings.ReplaceAll(mark, " ", "_") }

// linkLocal returns the address derived from a hardware address.
func linkLocal(mac net.HardwareAddr) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]})
}

// neighborOf returns the hardware address of a neighbour in a pod's kernel, nil if it has none.
func neighborOf(t *testing.T, p *pod, address netip.Addr) (mac net.HardwareAddr) {
	t.Helper()
	on(t, p.Namespace, podIf, func(link netlink.Link) error {
		entries, err := netlink.NeighList(link.Attrs().Index, netlink.FAMILY_ALL)
		for _, entry := range entries {
			if entry.IP.Equal(address.AsSlice()) {
				mac = entry.HardwareAddr
			}
		}
		return err
	})
	return mac
}

// TestPodAnswersOnlyForItsAddresses claims the address of pod b1 from pod a2, first without the filter, which shows the
// effect of each frame.
func TestPodAnswersOnlyForItsAddresses(t *testing.T) {
	t.Parallel()
	r := newReachable(t)
	attacker, victim := r.a2, r.b1
	forged := macOf(t, attacker.Namespace, podIf)
	toVictim, podAddress := macOf(t, r.a1.Namespace, podIf), r.address(r.a1, true)
	claimed4, claimed6 := r.address(victim, true), r.address(victim, false)
	tag, serviceTag := layers.EthernetTypeDot1Q, layers.EthernetTypeQinQ
	reply := func(mark string, tags ...layers.EthernetType) frame {
		return arpOf(t, layers.EthernetTypeARP, layers.ARPReply, forged, claimed4, toVictim, podAddress, mark, tags...)
	}
	attacks := map[string]struct {
		address netip.Addr // whose entry it overwrites, invalid for none
		frame   func(mark string) frame
	}{
		"an ARP reply":                         {claimed4, func(mark string) frame { return reply(mark) }},
		"an ARP reply with a priority tag":     {claimed4, func(mark string) frame { return reply(mark, tag) }},
		"an ARP reply with two priority tags":  {claimed4, func(mark string) frame { return reply(mark, tag, tag) }},
		"an ARP reply with a service tag":      {netip.Addr{}, func(mark string) frame { return reply(mark, serviceTag) }},
		"an ARP reply with five priority tags": {netip.Addr{}, func(mark string) frame { return reply(mark, tag, tag, tag, tag, tag) }},
		"an ARP reply to all": {claimed4, func(mark string) frame {
			return arpOf(t, layers.EthernetTypeARP, layers.ARPReply, forged, claimed4, broadcast, podAddress, mark)
		}},
		"an ARP request": {claimed4, func(mark string) frame {
			return arpOf(t, layers.EthernetTypeARP, layers.ARPRequest, forged, claimed4, broadcast, podAddress, mark)
		}},
		"a gratuitous ARP request": {claimed4, func(mark string) frame {
			return arpOf(t, layers.EthernetTypeARP, layers.ARPRequest, forged, claimed4, broadcast, claimed4, mark)
		}},
		"a RARP reply": {netip.Addr{}, func(mark string) frame {
			return arpOf(t, layers.EthernetType(0x8035), 4, forged, claimed4, broadcast, podAddress, mark)
		}},
		"a neighbour advertisement": {claimed6, func(mark string) frame {
			return discovery(t, layers.ICMPv6TypeNeighborAdvertisement, forged, r.address(attacker, false), claimed6, 0, mark)
		}},
		"a neighbour advertisement after three headers": {claimed6, func(mark string) frame {
			return discovery(t, layers.ICMPv6TypeNeighborAdvertisement, forged, r.address(attacker, false), claimed6, 3, mark)
		}},
		"a neighbour advertisement after nine headers": {netip.Addr{}, func(mark string) frame {
			return discovery(t, layers.ICMPv6TypeNeighborAdvertisement, forged, r.address(attacker, false), claimed6, 9, mark)
		}},
		"a neighbour advertisement of a link-local address": {linkLocal(macOf(t, victim.Namespace, podIf)), func(mark string) frame {
			return discovery(t, layers.ICMPv6TypeNeighborAdvertisement, forged, r.address(attacker, false), linkLocal(macOf(t, victim.Namespace, podIf)), 0, mark)
		}},
		"a neighbour solicitation": {claimed6, func(mark string) frame {
			return discovery(t, layers.ICMPv6TypeNeighborSolicitation, forged, claimed6, r.address(r.a1, false), 0, mark)
		}},
		"a search for duplicates of the address": {netip.Addr{}, func(mark string) frame {
			return discovery(t, layers.ICMPv6TypeNeighborSolicitation, forged, netip.IPv6Unspecified(), claimed6, 0, mark)
		}},
		"a router solicitation": {netip.Addr{}, func(mark string) frame {
			return discovery(t, layers.ICMPv6TypeRouterSolicitation, forged, claimed6, netip.IPv6Unspecified(), 0, mark)
		}},
	}
	received := listen(t, r.a1)
	arrives := func(mark string, sent frame) bool {
		sendRaw(t, attacker.Namespace, podIf, sent)
		sendRaw(t, attacker.Namespace, podIf, ethernet(t, forged, toVictim, layers.EthernetType(0x88b6), nil, gopacket.Payload(endOf(mark))))
		return received.receives(t, mark, endOf(mark))
	}
	truth := macOf(t, victim.Namespace, podIf)
	resolve := func(address netip.Addr) {
		on(t, r.a1.Namespace, podIf, func(link netlink.Link) error {
			return netlink.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, IP: address.AsSlice(), HardwareAddr: truth, State: netlink.NUD_STALE})
		})
		time.Sleep(20 * time.Millisecond) // a reply in the same tick counts as a copy of the newer one
	}
	// Otherwise the kernel ignores ARP replies for an entry for a second.
	must(t, r.a1.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/neigh/"+podIf+"/locktime", []byte("0"), 0) }))
	attacker.node.removeFilter(t, portOf(attacker), neighborsFilter)
	for name, attack := range attacks {
		if attack.address.IsValid() {
			resolve(attack.address)
		}
		if !arrives("forged before: "+name, attack.frame("forged before: "+name)) {
			t.Errorf("%s does not arrive without the filter; the test proves nothing", name)
		}
		if attack.address.IsValid() && !bytes.Equal(neighborOf(t, r.a1, attack.address), forged) {
			t.Errorf("%s overwrites nothing without the filter: the entry of %v is %v", name, attack.address, neighborOf(t, r.a1, attack.address))
		}
	}
	attacker.node.guard(t)
	for _, address := range []netip.Addr{claimed4, claimed6} {
		resolve(address)
	}
	for name, attack := range attacks {
		if arrives("forged after: "+name, attack.frame("forged after: "+name)) {
			t.Errorf("%s arrives", name)
		}
	}
	for _, address := range []netip.Addr{claimed4, claimed6} {
		if at := neighborOf(t, r.a1, address); !bytes.Equal(at, truth) {
			t.Errorf("after the attacks pod a1 has %v at %v, which is at %v", address, at, truth)
		}
		ping(t, r.a1, address, 56)
	}
	r.checkOwnDiscovery(t, arrives, forged)
}

// checkOwnDiscovery checks that a2 can announce its own addresses.
func (r *reachable) checkOwnDiscovery(t *testing.T, arrives func(string, frame) bool, mac net.HardwareAddr) {
	t.Helper()
	own4, own6, to := r.address(r.a2, true), r.address(r.a2, false), r.address(r.a1, true)
	hidden := netip.MustParseAddr("fe80::1234:5678:9abc:def0")
	const advertisement, solicitation = layers.ICMPv6TypeNeighborAdvertisement, layers.ICMPv6TypeNeighborSolicitation
	for name, frame := range map[string]frame{
		"ARP of itself":                         arpOf(t, layers.EthernetTypeARP, layers.ARPReply, mac, own4, broadcast, own4, "ARP of itself"),
		"ARP with a tag":                        arpOf(t, layers.EthernetTypeARP, layers.ARPReply, mac, own4, broadcast, own4, "ARP with a tag", layers.EthernetTypeDot1Q),
		"an ARP probe":                          arpOf(t, layers.EthernetTypeARP, layers.ARPRequest, mac, netip.IPv4Unspecified(), broadcast, to, "an ARP probe"),
		"an advertisement":                      discovery(t, advertisement, mac, own6, own6, 0, "an advertisement"),
		"one of its link-local address":         discovery(t, advertisement, mac, linkLocal(mac), linkLocal(mac), 1, "one of its link-local address"),
		"one of an address without a MAC":       discovery(t, advertisement, mac, hidden, hidden, 0, "one of an address without a MAC"),
		"a solicitation":                        discovery(t, solicitation, mac, own6, r.address(r.b1, false), 0, "a solicitation"),
		"a search for duplicates":               discovery(t, solicitation, mac, netip.IPv6Unspecified(), own6, 0, "a search for duplicates"),
		"a router solicitation from none":       discovery(t, layers.ICMPv6TypeRouterSolicitation, mac, netip.IPv6Unspecified(), own6, 0, "a router solicitation from none"),
		"a datagram from another pod's address": inFrame(t, mac, r.address(r.b1, true), r.a1, to, "a datagram from another pod's address"),
	} {
		if !arrives(name, frame) {
			t.Errorf("%s does not arrive", name)
		}
	}
}

// TestPodAnswersForNetworkAddresses checks that pods may answer for their network's sourceAddresses, and that CHECK
// reports and restores the filter.
func TestPodAnswersForNetworkAddresses(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	config := lab.a.config(fields{"sourceAddresses": []string{"10.43.0.0/16", "fd00:43::/64"}})
	router, other := lab.a.newPod(t), lab.a.newPod(t)
	router.add(t, config)
	other.add(t, config)
	mac, received := macOf(t, router.Namespace, podIf), listen(t, other)
	check := func(when string, foreign bool) {
		t.Helper()
		for address, want := range map[string]bool{"10.43.7.7": true, "10.44.7.7": foreign, "fd00:43::7": true, "fd00:43:0:1::7": foreign} {
			mark, at := when+" "+address+" .", netip.MustParseAddr(address)
			frame := arpOf(t, layers.EthernetTypeARP, layers.ARPReply, mac, at, broadcast, at, mark)
			if at.Is6() {
				frame = discovery(t, layers.ICMPv6TypeNeighborAdvertisement, mac, linkLocal(mac), at, 0, mark)
			}
			sendRaw(t, router.Namespace, podIf, frame)
			sendRaw(t, router.Namespace, podIf, ethernet(t, mac, broadcast, layers.EthernetType(0x88b6), nil, gopacket.Payload(endOf(mark))))
			if got := received.receives(t, mark, endOf(mark)); got != want {
				t.Errorf("%s: the announcement of %s arrives: %v", when, address, got)
			}
		}
	}
	check("attached", false)
	router.node.removeFilter(t, portOf(router), neighborsFilter)
	check("without the filter", true)
	err := lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), router.attachment())
	testlab.CheckError(t, err, "lacked the filter that drops ARP and neighbour discovery")
	check("after CHECK", false)
	must(t, lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), router.attachment()))
}

// A pod that comes back with its address on another interface is found at once: what others know of it is out of date, and they would ask
// again only after some 30 s.
func TestNewHardwareAddressIsAnnounced(t *testing.T) {
	t.Parallel()
	for family, ipv4 := range families {
		r := newReachable(t)
		address := r.address(r.a1, ipv4)
		ping(t, r.b1, address, 56)
		for _, mac := range []string{"02:00:00:00:77:01", "02:00:00:00:77:02"} {
			r.a1.del(t, r.a.config(nil))
			r.a1 = r.a1.newSandbox(t)
			bits := map[bool]string{true: "/16", false: "/32"}[ipv4]
			r.a1.add(t, r.a.config(fields{"ipam": static(address.String() + bits), "args": fields{"cni": fields{"mac": mac}}}))
			testlab.Eventually(t, 5*time.Second, 20*time.Millisecond, func() error {
				for _, entry := range within(t, r.b1, func() ([]netlink.Neigh, error) { return netlink.NeighList(0, 0) }) {
					if known, ok := netip.AddrFromSlice(entry.IP); ok && known.Unmap() == address && entry.HardwareAddr.String() == mac {
						return nil
					}
				}
				return fmt.Errorf("%s: the other pod does not know that %s is at %s", family, address, mac)
			})
		}
	}
}

// ktsnd has the kernel solicit IPv6 neighbours from the link-local address. While that is tentative, timed messages wait.
func TestLinkLocalAddressIsUsableAtOnce(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	pod.add(t, lab.a.config(fields{"ipam": lab.a.dualStack()}))
	addresses := within(t, pod, func() ([]netlink.Addr, error) {
		link, err := netlink.LinkByName(podIf)
		if err != nil {
			return nil, err
		}
		return netlink.AddrList(link, netlink.FAMILY_V6)
	})
	linkLocal := 0
	for _, address := range addresses {
		if address.Flags&unix.IFA_F_TENTATIVE != 0 {
			t.Errorf("%s is tentative", address.IPNet)
		}
		if address.IP.IsLinkLocalUnicast() {
			linkLocal++
		}
	}
	if linkLocal != 1 {
		t.Errorf("the pod has %d link-local addresses: %v", linkLocal, addresses)
	}
}
