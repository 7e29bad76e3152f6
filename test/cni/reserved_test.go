// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// bridgesOwn are addresses that the kernel handles in different ways at a bridge port.
var bridgesOwn = []net.HardwareAddr{
	{0x01, 0x80, 0xc2, 0, 0, 0x02}, {0x01, 0x80, 0xc2, 0, 0, 0x03}, {0x01, 0x80, 0xc2, 0, 0, 0x0e}, {0x01, 0x80, 0xc2, 0, 0, 0x0f},
}

// A bridge without the spanning tree protocol forwards frames to its address; ktsnd announces to the other one.
var (
	spanningTree = net.HardwareAddr{0x01, 0x80, 0xc2, 0, 0, 0}
	announced    = net.HardwareAddr{0x01, 0x80, 0xc2, 0, 0, 0x0e}
)

// trust disables source validation on an interface of the node.
func (n *node) trust(t *testing.T, portName string) {
	t.Helper()
	must(t, n.Do(func() error {
		for _, name := range []string{"all", portName} {
			if err := os.WriteFile(filepath.Join("/proc/sys/net/ipv4/conf", name, "rp_filter"), []byte("0"), 0); err != nil {
				return err
			}
		}
		return nil
	}))
}

// announcements receives all frames of a node with the EtherType of ktsnd's announcements, like ktsnd.
func (n *node) announcements(t *testing.T) *listener {
	t.Helper()
	fd := within(t, n, func() (int, error) { return packetsAt("", recordEtherType) })
	t.Cleanup(func() { _ = unix.Close(fd) })
	return &listener{fd}
}

// announcement is a frame to an address with the EtherType of ktsnd's announcements.
func announcement(source, destination net.HardwareAddr, text string) []byte {
	return machineFrame(destination, source, recordEtherType, []byte(text))
}

// reaches reports whether a datagram in a frame to a bridge address reaches a program of the node.
func (s *service) reaches(t *testing.T, p *pod, interfaceName string, from netip.Addr, destination net.HardwareAddr) bool {
	t.Helper()
	text := fmt.Sprintf("to %v", destination)
	ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: from.AsSlice(), DstIP: p.node.address.AsSlice()}
	udp := &layers.UDP{SrcPort: 7788, DstPort: layers.UDPPort(s.port())}
	must(t, udp.SetNetworkLayerForChecksum(ip))
	source := macOf(t, p.Namespace, interfaceName)
	sendRaw(t, p.Namespace, interfaceName, ethernet(t, source, destination, layers.EthernetTypeIPv4, nil, ip, udp, gopacket.Payload(text)))
	// A veth pair delivers a frame when it is sent, or drops it.
	must(t, p.node.Do(func() error {
		return sendText(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), s.port()), "end "+text)
	}))
	return s.receives(t, text, "end "+text)
}

// removeFilter removes a filter from the node's end, like an administrator or an older release.
func (n *node) removeFilter(t *testing.T, portName, prefix string) {
	t.Helper()
	on(t, n.Namespace, portName, func(link netlink.Link) error {
		filters, err := netlink.FilterList(link, netlink.HANDLE_MIN_INGRESS)
		if err != nil {
			return err
		}
		for _, filter := range filters {
			if program, ok := filter.(*netlink.BpfFilter); ok && strings.HasPrefix(program.Name, prefix) {
				return netlink.FilterDel(filter)
			}
		}
		return fmt.Errorf("%s has no filter %s", portName, prefix)
	})
}

// TestReservedAnnouncementsOfPods checks that pods cannot send what looks like announcements of ktsnd.
func TestReservedAnnouncementsOfPods(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	sender, other := lab.a.newPod(t), lab.a.newPod(t)
	port := sender.add(t, lab.a.config(nil)).Interfaces[1].Name
	other.add(t, lab.a.config(nil))
	source := macOf(t, sender.Namespace, podIf)
	node, pod := lab.a.announcements(t), listen(t, other)
	for _, filtered := range []bool{true, false} {
		if !filtered {
			lab.a.removeFilter(t, port, "ktsn_reserved") // otherwise the rest proves nothing
		}
		end := fmt.Sprintf("end %v", filtered)
		sendRaw(t, sender.Namespace, podIf, announcement(source, announced, "to a node"))
		sendRaw(t, sender.Namespace, podIf, announcement(source, spanningTree, "to a bridge"))
		sendRaw(t, sender.Namespace, podIf, announcement(source, broadcast, end))
		if got := pod.receives(t, "to a bridge", end); got == filtered {
			t.Errorf("with the filter %v: what is sent to %v reaches another pod: %v", filtered, spanningTree, got)
		}
		sendRaw(t, lab.a.Namespace, "lo", announcement(source, broadcast, end))
		if got := node.receives(t, "to a node", end); got == filtered {
			t.Errorf("with the filter %v: what is sent to %v reaches the node: %v", filtered, announced, got)
		}
	}
}

func TestReservedAddressesDoNotReachNode(t *testing.T) {
	t.Parallel()
	lab := newLinkLab(t)
	l := newLinked(lab.a.newPod(t), lab.b.newPod(t), linkVNI)
	l.plug(t)
	cases := map[string]*offender{"of a link": {
		pod: l.client.pod, name: l.client.name, address: netip.MustParsePrefix(l.client.addresses[0]).Addr(),
		port:  linkPortOf(l.client.pod, l.client.name),
		check: func(t *testing.T) error { return l.check(t, l.client) },
		again: func(t *testing.T) { must(t, l.plugWith(t, lab.a.runtime, l.client)) },
	}}
	for _, mode := range []string{"None", "Timed", "All"} {
		config := lab.a.config(fields{"capture": mode})
		p := lab.a.newPod(t)
		result := p.add(t, config)
		cases["of a network that captures "+mode] = &offender{
			pod: p, name: podIf, address: addressOf(result, true), port: result.Interfaces[1].Name,
			check: func(t *testing.T) error {
				return lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), p.attachment())
			},
		}
	}
	service := lab.a.serve(t)
	for name, o := range cases {
		t.Run(name, func(t *testing.T) { o.offend(t, service) })
	}
}

// offender is a pod that sends to the reserved addresses of bridges.
type offender struct {
	*pod
	name, port string
	address    netip.Addr
	check      func(*testing.T) error
	// again plugs it once more, if it is not nil.
	again func(*testing.T)
}

func linkPortOf(p *pod, interfaceName string) string {
	return (&overlay.Attachment{Network: attachment.LinkNetwork, ContainerID: p.id, Interface: interfaceName}).PortName()
}

func (o *offender) offend(t *testing.T, service *service) {
	o.node.trust(t, o.port)
	reach := func(when string, want bool) {
		t.Helper()
		for _, destination := range bridgesOwn {
			if got := service.reaches(t, o.pod, o.name, o.address, destination); got != want {
				t.Errorf("%s: what is sent to %v reaches the node: %v", when, destination, got)
			}
		}
	}
	reach("as it was attached", false)
	must(t, o.check(t))
	o.node.removeFilter(t, o.port, "ktsn_reserved")
	reach("without the filter", true) // otherwise the rest proves nothing
	testlab.CheckError(t, o.check(t), "lacked the filter that keeps what the pod sends to addresses of bridges")
	reach("after CHECK", false)
	o.node.removeFilter(t, o.port, "ktsn_reserved")
	o.node.guard(t)
	reach("after ktsn-agent has looked", false)
	if o.again != nil {
		o.node.removeFilter(t, o.port, "ktsn_reserved")
		o.again(t)
		reach("plugged again", false)
	}
	must(t, o.check(t))
}

// TestReservedAddressesFromPeerNode checks that frames to reserved addresses from another machine of the underlay do
// not pass the tunnel to the node.
func TestReservedAddressesFromPeerNode(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	receiver := lab.a.newPod(t)
	receiver.add(t, lab.a.config(nil))
	lab.a.ktsn(t, "node", "peers", "add", "--vni", "42", lab.b.address.String(), lab.b.subnet.String())
	lab.a.trust(t, tunnelName)
	service := lab.a.serve(t)
	send := func(inside []byte) {
		outerIP := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: lab.b.address.AsSlice(), DstIP: lab.a.address.AsSlice()}
		outerUDP := &layers.UDP{SrcPort: 50000, DstPort: 4789}
		must(t, outerUDP.SetNetworkLayerForChecksum(outerIP))
		sendRaw(t, lab.b.Namespace, uplinkName, ethernet(t, macOf(t, lab.b.Namespace, uplinkName), macOf(t, lab.a.Namespace, uplinkName),
			layers.EthernetTypeIPv4, nil, outerIP, outerUDP, &layers.VXLAN{ValidIDFlag: true, VNI: vni}, gopacket.Payload(inside)))
	}
	source := net.HardwareAddr{2, 0, 0, 0, 0, 7}
	node, pod := lab.a.announcements(t), listen(t, receiver)
	reaches := func(destination net.HardwareAddr) bool {
		text := fmt.Sprintf("to %v", destination)
		ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: net.IPv4(10, 42, 2, 77).To4(), DstIP: lab.a.address.AsSlice()}
		udp := &layers.UDP{SrcPort: 7788, DstPort: layers.UDPPort(service.port())}
		must(t, udp.SetNetworkLayerForChecksum(ip))
		send(ethernet(t, source, destination, layers.EthernetTypeIPv4, nil, ip, udp, gopacket.Payload(text)))
		must(t, lab.a.Do(func() error {
			return sendText(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), service.port()), "end "+text)
		}))
		return service.receives(t, text, "end "+text)
	}
	for _, filtered := range []bool{true, false} {
		if !filtered {
			lab.a.removeFilter(t, tunnelName, "ktsn_reserved") // otherwise the rest proves nothing
		}
		for _, destination := range bridgesOwn {
			if got := reaches(destination); got == filtered {
				t.Errorf("with the filter %v: what is sent to %v reaches the node: %v", filtered, destination, got)
			}
		}
		// Announcements of ktsnd have one of these addresses.
		end := fmt.Sprintf("end %v", filtered)
		send(announcement(source, bridgesOwn[0], "to another"))
		send(announcement(source, spanningTree, "to a bridge"))
		send(announcement(source, broadcast, end))
		if got := pod.receives(t, "to a bridge", end); got == filtered {
			t.Errorf("with the filter %v: what is sent to %v reaches a pod: %v", filtered, spanningTree, got)
		}
		send(announcement(source, announced, end))
		if got := node.receives(t, "to another", end); got == filtered {
			t.Errorf("with the filter %v: what is sent to %v reaches the node: %v", filtered, bridgesOwn[0], got)
		}
	}
}
