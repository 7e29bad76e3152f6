// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inTunnel returns the payload of a tunnel's datagram, up to the protocol field of the inner IPv4 packet.
func inTunnel(etherType uint16, protocol byte) []byte {
	vxlan, addresses := []byte{8, 0, 0, 0, 0, 0, VNI, 0}, make([]byte, 12)
	return slices.Concat(vxlan, addresses, []byte{byte(etherType >> 8), byte(etherType), 0x45, 0, 0, 32, 0, 0, 0, 0, 64, protocol, 0, 0})
}

func TestDiscardMessages(t *testing.T) {
	for name, test := range map[string]struct {
		port      int
		payload   []byte
		discarded bool
	}{
		"a message":                     {VXLANPort, inTunnel(unix.ETH_P_IP, unix.IPPROTO_UDP), true},
		"a question for an address":     {VXLANPort, inTunnel(unix.ETH_P_ARP, unix.IPPROTO_UDP), false},
		"another protocol":              {VXLANPort, inTunnel(unix.ETH_P_IP, unix.IPPROTO_TCP), false},
		"what is no frame":              {VXLANPort, []byte("short"), false},
		"a datagram outside the tunnel": {VXLANPort + 1, inTunnel(unix.ETH_P_IP, unix.IPPROTO_UDP), false},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := create(t)
			if !receives(t, nodes, test.port, test.payload) {
				t.Fatal("nothing is received; this test has no meaning here")
			}
			for range 2 {
				if err := nodes.DiscardMessages(); err != nil {
					t.Fatal(err)
				}
			}
			before := framesReceived(t, nodes)
			if got := receives(t, nodes, test.port, test.payload); got == test.discarded {
				t.Errorf("received: %v", got)
			}
			if framesReceived(t, nodes) == before {
				t.Error("it does not count as received by the interface")
			}
		})
	}
}

func framesReceived(t *testing.T, nodes *Topology) uint64 {
	t.Helper()
	frames, err := nodes.NodeB.FramesReceived(PhysicalInterface)
	if err != nil {
		t.Fatal(err)
	}
	return frames
}

// receives sends a datagram from node a to node b until it arrives, or for a while.
func receives(t *testing.T, nodes *Topology, port int, payload []byte) bool {
	t.Helper()
	var listener, sender *net.UDPConn
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(NodeAddressB, uint16(port)))
	err := errors.Join(
		nodes.NodeB.Do(func() (err error) { listener, err = net.ListenUDP("udp4", to); return err }),
		nodes.NodeA.Do(func() (err error) { sender, err = net.DialUDP("udp4", nil, to); return err }))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	defer sender.Close()
	for range 10 {
		if _, err := sender.Write(payload); err != nil {
			t.Fatal(err)
		}
		if err := listener.SetReadDeadline(time.Now().Add(30 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := listener.Read(make([]byte, 100)); err == nil {
			return true
		} else if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	return false
}
