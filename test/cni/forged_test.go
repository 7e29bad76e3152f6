// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const tunnelPort = 4789

// frame is a forged frame. It contains a mark by which it is recognised.
type frame []byte

// inFrame returns a frame that carries a datagram with the mark. tags precede its EtherType.
func inFrame(t *testing.T, source net.HardwareAddr, from netip.Addr, to *pod, target netip.Addr, mark string, tags ...layers.EthernetType) frame {
	t.Helper()
	udp := &layers.UDP{SrcPort: 7788, DstPort: 7788}
	payload := gopacket.Payload(mark)
	if target.Is4() {
		ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: from.AsSlice(), DstIP: target.AsSlice()}
		must(t, udp.SetNetworkLayerForChecksum(ip))
		return ethernet(t, source, macOf(t, to.Namespace, podIf), layers.EthernetTypeIPv4, tags, ip, udp, payload)
	}
	ip := &layers.IPv6{Version: 6, HopLimit: 255, NextHeader: layers.IPProtocolUDP, SrcIP: from.AsSlice(), DstIP: target.AsSlice()}
	must(t, udp.SetNetworkLayerForChecksum(ip))
	return ethernet(t, source, macOf(t, to.Namespace, podIf), layers.EthernetTypeIPv6, tags, ip, udp, payload)
}

// arpFrame announces the hardware address of an IPv4 address to all.
func arpFrame(t *testing.T, source net.HardwareAddr, sender netip.Addr, mark string) frame {
	t.Helper()
	return arpOf(t, layers.EthernetTypeARP, layers.ARPReply, source, sender, broadcast, sender, mark)
}

var broadcast = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

func ethernet(t *testing.T, source, destination net.HardwareAddr, etherType layers.EthernetType, tags []layers.EthernetType, inside ...gopacket.SerializableLayer) frame {
	t.Helper()
	types := slices.Concat(tags, []layers.EthernetType{etherType})
	all := []gopacket.SerializableLayer{&layers.Ethernet{SrcMAC: source, DstMAC: destination, EthernetType: types[0]}}
	for i := range tags {
		all = append(all, &layers.Dot1Q{Priority: 6, Type: types[i+1]})
	}
	return serialize(t, append(all, inside...)...)
}

func serialize(t *testing.T, all ...gopacket.SerializableLayer) []byte {
	t.Helper()
	buffer := gopacket.NewSerializeBuffer()
	must(t, gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, all...))
	return slices.Clone(buffer.Bytes())
}

// encapsulate returns the frame as the payload of a tunnel packet.
func (f frame) encapsulate() []byte {
	return append([]byte{8, 0, 0, 0, 0, 0, vni, 0}, f...)
}

func macOf(t *testing.T, in *topology.Namespace, name string) (address net.HardwareAddr) {
	t.Helper()
	on(t, in, name, func(link netlink.Link) error {
		address = link.Attrs().HardwareAddr
		return nil
	})
	return address
}

// sendUDP sends a datagram without privileges.
func sendUDP(t *testing.T, from *topology.Namespace, to netip.Addr, payload []byte) {
	t.Helper()
	must(t, from.Do(func() error {
		conn, err := net.Dial("udp", netip.AddrPortFrom(to, tunnelPort).String())
		if err != nil {
			return err
		}
		defer conn.Close()
		_, _ = conn.Write(payload) // an error is one possible answer
		return nil
	}))
}

// ipv6OfB is the address by which onWire reaches node b over IPv6.
var ipv6OfB = netip.MustParsePrefix("fd00:ff::2/64")

// outer returns the IP header of a packet to node b and its EtherType.
func (l *lab) outer(source netip.Addr) (layers.EthernetType, ipLayer) {
	if source.Is6() {
		return layers.EthernetTypeIPv6, &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolUDP,
			SrcIP: source.AsSlice(), DstIP: ipv6OfB.Addr().AsSlice()}
	}
	return layers.EthernetTypeIPv4, &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP,
		SrcIP: source.AsSlice(), DstIP: l.b.address.AsSlice()}
}

type ipLayer interface {
	gopacket.NetworkLayer
	gopacket.SerializableLayer
}

// onWire sends a tunnel packet from node a's link to node b, like any host on that link.
func (l *lab) onWire(t *testing.T, source netip.Addr, payload []byte) {
	t.Helper()
	etherType, ip := l.outer(source)
	udp := &layers.UDP{SrcPort: 50000, DstPort: tunnelPort}
	must(t, udp.SetNetworkLayerForChecksum(ip))
	packet := serialize(t, &layers.Ethernet{SrcMAC: macOf(t, l.a.Namespace, uplinkName), DstMAC: macOf(t, l.b.Namespace, uplinkName),
		EthernetType: etherType}, ip, udp, gopacket.Payload(payload))
	sendRaw(t, l.a.Namespace, uplinkName, packet)
}

// sendRaw sends a frame unchanged.
func sendRaw(t *testing.T, in *topology.Namespace, interfaceName string, frame []byte) {
	t.Helper()
	on(t, in, interfaceName, func(link netlink.Link) error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index, Halen: 6})
	})
}

// listener receives all frames at a pod's interface.
type listener struct{ fd int }

func listen(t *testing.T, p *pod) *listener {
	t.Helper()
	return &listener{packetSocket(t, p, unix.ETH_P_ALL)}
}

// receives reports whether a frame with the mark arrives before the frame with another mark, which must arrive.
func (e *listener) receives(t *testing.T, mark, before string) bool {
	t.Helper()
	limit := unix.NsecToTimeval(int64(50 * time.Millisecond))
	must(t, unix.SetsockoptTimeval(e.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit))
	matched, buffer := false, make([]byte, 65536)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		n, err := unix.Read(e.fd, buffer)
		if err != nil {
			continue
		}
		matched = matched || bytes.Contains(buffer[:n], []byte(mark))
		if bytes.Contains(buffer[:n], []byte(before)) {
			return matched
		}
	}
	t.Fatalf("no frame with %q has arrived", before)
	return false
}

// leadsTo returns the type of the device to which the node's bridge forwards an address, "" if it has not learned the
// address.
func (n *node) leadsTo(t *testing.T, address net.HardwareAddr) (kind string) {
	t.Helper()
	must(t, n.Do(func() error {
		entries, err := netlink.NeighList(0, unix.AF_BRIDGE)
		for _, entry := range entries {
			if entry.MasterIndex == 0 || !bytes.Equal(entry.HardwareAddr, address) {
				continue
			}
			link, err := netlink.LinkByIndex(entry.LinkIndex)
			if err != nil {
				return err
			}
			kind = link.Type()
		}
		return err
	}))
	return kind
}

func TestClaimedAddressOfOtherNodeGetsNoFrames(t *testing.T) {
	t.Parallel()
	r := newReachable(t)
	ping(t, r.b1, r.address(r.a1, true), 100)
	claimed, received := macOf(t, r.b1.Namespace, podIf), listen(t, r.a1)
	if before := r.a.leadsTo(t, claimed); before != "vxlan" {
		t.Fatalf("after a ping from the other node its pod is behind %q", before)
	}
	// The bridge learns from a frame before it forwards it.
	sendRaw(t, r.a2.Namespace, podIf, inFrame(t, claimed, r.address(r.b1, true), r.a1, r.address(r.a1, true), "claimed"))
	received.receives(t, "claimed", "claimed")
	if after := r.a.leadsTo(t, claimed); after != "vxlan" {
		t.Errorf("after a neighbour claimed its address it is behind %q", after)
	}
}

func TestFramesToSecondaryAddressReachPod(t *testing.T) {
	t.Parallel()
	r := newReachable(t)
	inner := net.HardwareAddr{0x02, 0, 0, 0, 0, 7}
	// Like a macvlan interface in the pod.
	sendRaw(t, r.a2.Namespace, podIf, arpFrame(t, inner, r.address(r.a2, true), "it is here"))
	received := listen(t, r.a2)
	for name, from := range map[string]*pod{"the same node": r.a1, "another node": r.b1} {
		sendRaw(t, from.Namespace, podIf, ethernet(t, macOf(t, from.Namespace, podIf), inner, layers.EthernetType(0x88b6), nil, gopacket.Payload(name)))
		received.receives(t, name, name)
	}
	if at := r.a.leadsTo(t, inner); at != "" {
		t.Errorf("the bridge has learnt that it is behind %q", at)
	}
}
