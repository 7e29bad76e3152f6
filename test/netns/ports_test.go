// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// otherPort is the UDP port of network otherVNI.
const otherPort = 8472

// portedNetwork is a network with a pod on each node.
type portedNetwork struct {
	port       uint16
	a, b       *cniruntime.Side
	podA, podB *topology.Namespace
	atB        netip.AddrPort
}

// TestTwoNetworksOnTwoPorts has two networks, whose tunnels have different UDP ports, on the same nodes: messages of ktsnd, datagrams of
// the kernel and the nodes' announcements go to the port of their network, also after a ktsnd has taken over.
func TestTwoNetworksOnTwoPorts(t *testing.T) {
	content(t)
	lab, wiring := newUnattached(t)
	first := &portedNetwork{topology.VXLANPort, wiring.A, wiring.B, lab.PodA, lab.PodB, netip.AddrPortFrom(topology.PodAddressB, listenPort)}
	second := lab.otherNetwork(t, wiring)
	daemon, client := lab.startUnattached(t)
	controlB := filepath.Join(lab.dir, "control-b.sock")
	_, clientB := startDaemonOn(t, lab.NodeB, controlB, topology.NodeAddressB)
	for _, network := range []*portedNetwork{first, second} {
		must(t, network.a.Attach(t.Context(), client, lab.control))
		must(t, network.b.Attach(t.Context(), clientB, controlB))
	}
	check := func(when string) {
		for _, network := range []*portedNetwork{first, second} {
			lab.checkTimed(t, network, "timed "+when)
			lab.checkPlain(t, network, "plain "+when)
		}
	}
	check("at first")
	testlab.Eventually(t, membersPatience, 10*time.Millisecond, func() error {
		peers, err := clientB.Peers(t.Context())
		must(t, err)
		healthy := 0
		for _, peer := range peers {
			if peer.Health != nil && peer.Health.UplinkAgoMs >= 0 && peer.Health.TunnelAgoMs >= 0 {
				healthy++
			}
		}
		if healthy == 2 {
			return nil
		}
		return fmt.Errorf("node b receives announcements of node a on %d of 2 networks: %+v", healthy, peers)
	})
	_, client = lab.takeOver(t, daemon)
	peers, err := client.Peers(t.Context())
	must(t, err)
	for _, peer := range peers {
		if want := map[uint32]uint16{otherVNI: otherPort}[peer.VNI]; peer.Port != want {
			t.Errorf("after the hand-over network %d has the port %d, want %d", peer.VNI, peer.Port, want)
		}
	}
	check("after the hand-over")
}

// TestNetworkNextToTunnelOfAll has a device on each node that takes all packets to VXLAN's port, as other overlays do.
func TestNetworkNextToTunnelOfAll(t *testing.T) {
	content(t)
	lab, wiring := newUnattached(t)
	for _, node := range []*topology.Namespace{lab.NodeA, lab.NodeB} {
		ip(t, node, "link", "add", "vxlan9", "type", "vxlan", "external", "dstport", "4789")
		ip(t, node, "link", "set", "vxlan9", "up")
	}
	network := lab.otherNetwork(t, wiring)
	_, client := lab.startUnattached(t)
	must(t, network.a.Attach(t.Context(), client, lab.control))
	must(t, network.b.Attach(t.Context(), nil, ""))
	lab.checkTimed(t, network, "timed")
	lab.checkPlain(t, network, "plain")
}

// otherNetwork returns another network of the lab, with pods of its own.
func (l *lab) otherNetwork(t *testing.T, wiring *cniruntime.Wiring) *portedNetwork {
	t.Helper()
	addressA, addressB := netip.MustParseAddr("10.43.1.2"), netip.MustParseAddr("10.43.2.2")
	network := &portedNetwork{port: otherPort, podA: newNamespace(t, l.NodeA.Name()+"-other"), podB: newNamespace(t, l.NodeB.Name()+"-other"),
		atB: netip.AddrPortFrom(addressB, listenPort)}
	network.a, network.b = wiring.A.Another("other-a", network.podA, addressA), wiring.B.Another("other-b", network.podB, addressB)
	network.a.Join(otherVNI, otherPort, netip.MustParsePrefix("10.43.2.0/24"))
	network.b.Join(otherVNI, otherPort, netip.MustParsePrefix("10.43.1.0/24"))
	return network
}

// checkTimed sends a message through ktsnd from node a to node b.
func (l *lab) checkTimed(t *testing.T, network *portedNetwork, text string) {
	t.Helper()
	l.checkPort(t, network, text, func() {
		command := exec.Command(program(t, "ktsn-test-send"), "--to", network.atB.Addr().String(), "--port", strconv.Itoa(int(network.atB.Port())), "0:"+text)
		command.Env = append(os.Environ(), "LD_PRELOAD="+program(t, "libktsn.so"), "KTSN_SOCKET="+network.a.Socket())
		must(t, finish(t, start(t, network.podA, "ktsn-test-send", command)))
	})
}

// checkPlain sends a datagram through the kernel from node a to node b.
func (l *lab) checkPlain(t *testing.T, network *portedNetwork, text string) {
	t.Helper()
	l.checkPort(t, network, text, func() {
		conn := listen(t, network.podA, "udp4", netip.AddrPortFrom(netip.IPv4Unspecified(), 0))
		defer conn.Close()
		_, err := conn.WriteToUDPAddrPort([]byte(text), network.atB)
		must(t, err)
	})
}

// checkPort checks that a datagram arrives, once, by a packet to the network's port.
func (l *lab) checkPort(t *testing.T, network *portedNetwork, text string, send func()) {
	t.Helper()
	listener := listen(t, network.podB, "udp4", network.atB)
	defer listener.Close()
	tap := l.openTap(t, 500)
	send()
	if got, _ := receive(t, listener); got != text {
		t.Errorf("the pod got %q, want %q", got, text)
	}
	const atPort, outerBytes = 14 + 20 + 2, 14 + 20 + 8 + 8
	count := 0
	for _, packet := range stopTap(t, tap) {
		if len(packet.Head) < outerBytes || !bytes.Contains(packet.Head[outerBytes:], []byte(text)) {
			continue
		}
		count++
		if port := binary.BigEndian.Uint16(packet.Head[atPort:]); port != network.port {
			t.Errorf("%q went to UDP port %d, want %d", text, port, network.port)
		}
	}
	if count != 1 {
		t.Errorf("%d packets with %q on the wire", count, text)
	}
}
