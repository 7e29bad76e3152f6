// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
	"github.com/kubernetsn/kubernetsn/internal/testlab/wiretap"
)

// ip runs ip in the node's network namespace.
func (n *node) ip(t *testing.T, arguments ...string) {
	t.Helper()
	if out, err := outputOf(t, n.Namespace, exec.Command("ip", arguments...)); err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(arguments, " "), err, out)
	}
}

// withRouter puts a router between the nodes, which reaches node b over a link with a smaller MTU.
func (l *lab) withRouter(t *testing.T, mtu int) {
	t.Helper()
	router := &node{Namespace: l.namespace(t, "router"), lab: l}
	l.b.ip(t, "link", "set", uplinkName, "netns", filepath.Base(router.Path()), "name", "near0")
	router.ip(t, "address", "add", "192.0.2.254/24", "dev", "near0")
	router.ip(t, "link", "set", "near0", "up")
	router.ip(t, "link", "add", "far0", "type", "veth", "peer", "name", uplinkName, "netns", filepath.Base(l.b.Path()))
	router.ip(t, "address", "add", "198.51.100.254/24", "dev", "far0")
	router.ip(t, "link", "set", "far0", "up", "mtu", strconv.Itoa(mtu))
	l.b.address = netip.MustParseAddr("198.51.100.2")
	l.b.ip(t, "address", "add", "198.51.100.2/24", "dev", uplinkName)
	l.b.ip(t, "link", "set", uplinkName, "up")
	l.a.ip(t, "route", "add", "198.51.100.0/24", "via", "192.0.2.254")
	l.b.ip(t, "route", "add", "192.0.2.0/24", "via", "198.51.100.254")
	if _, err := outputOf(t, router.Namespace, exec.Command("sysctl", "-qw", "net.ipv4.ip_forward=1")); err != nil {
		t.Fatal(err)
	}
}

// sendTimed sends timed messages of a size from pod a1 and returns the errno of each call.
func (r *reachable) sendTimed(t *testing.T, to *pod, size, count int) (results []syscall.Errno) {
	t.Helper()
	file := filepath.Join(r.a.dir, "talker.csv")
	talker := startTalker(t, r.a1, r.a1.socket(), "--count", strconv.Itoa(count), "--csv", file, "--size", strconv.Itoa(size),
		"--to", netip.AddrPortFrom(r.address(to, true), 7788).String())
	_ = talker.Wait() // the file contains the calls' results
	for _, call := range testlab.ReadFile(t, file, tsnperf.ReadTalker) {
		results = append(results, syscall.Errno(call.Errno))
	}
	return results
}

// TestRouterFragmentsTimedMessages sends over a path whose MTU is smaller than the uplink's, as in clouds and VPNs.
func TestRouterFragmentsTimedMessages(t *testing.T) {
	t.Parallel()
	const count = 20
	lab := newLab(t)
	lab.withRouter(t, 1400)
	lab.a.startDaemon(t)
	lab.b.startDaemon(t)
	r := lab.reachable(t)
	file := filepath.Join(r.b.dir, "listener.csv")
	listener := r.startListener(t, r.b1, file, count)
	for i, errno := range r.sendTimed(t, r.b1, 1400, count) {
		if errno != 0 {
			t.Errorf("call %d: %v", i, errno)
		}
	}
	must(t, listener.Wait())
	if received := testlab.ReadFile(t, file, tsnperf.ReadListener); len(received) != count {
		t.Errorf("%d of %d messages arrived", len(received), count)
	}
}

// TestLearntMTUHidesNoRouteMTU has the kernel learn the MTU of a path whose route was configured with another one.
func TestLearntMTUHidesNoRouteMTU(t *testing.T) {
	t.Parallel()
	const mtu = 1450
	lab := newLab(t)
	lab.withRouter(t, 1400)
	lab.a.ip(t, "route", "change", "198.51.100.0/24", "via", "192.0.2.254", "mtu", strconv.Itoa(mtu))
	lab.a.startDaemon(t)
	lab.b.startDaemon(t)
	r := lab.reachable(t)
	testlab.Eventually(t, patience, 20*time.Millisecond, func() error {
		// The first one may leave before the router has answered.
		_, _ = outputOf(t, r.a.Namespace, exec.Command("ping", "-n", "-c", "2", "-i", "0.2", "-W", "1", "-M", "do", "-s", "1410", r.b.address.String()))
		route, err := outputOf(t, r.a.Namespace, exec.Command("ip", "route", "get", r.b.address.String()))
		if err == nil && !strings.Contains(route, "expires") {
			return fmt.Errorf("the kernel has learnt nothing: %s", route)
		}
		return err
	})
	fits := mtu - 50 - 28
	for size, want := range map[int]syscall.Errno{fits: 0, fits + 1: syscall.EMSGSIZE} {
		if results := r.sendTimed(t, r.b1, size, 1); len(results) != 1 || results[0] != want {
			t.Errorf("a message of %d bytes: %v, want %v", size, results, want)
		}
	}
}

// TestUplinkReturnsToItsFirstAddress takes the uplink's address away for a while.
func TestUplinkReturnsToItsFirstAddress(t *testing.T) {
	t.Parallel()
	const other = "192.0.2.101"
	node := newServedLab(t).a
	first := node.address.String() + "/24"
	await := func(want string) {
		t.Helper()
		testlab.Eventually(t, patience, 20*time.Millisecond, func() error {
			status, err := node.client.Status(t.Context())
			if err == nil && status.LocalAddress.String() != want {
				return fmt.Errorf("ktsnd sends from %s, want %s", status.LocalAddress, want)
			}
			return err
		})
	}
	await(node.address.String())
	node.ip(t, "address", "add", "169.254.7.7/16", "dev", uplinkName)
	node.ip(t, "address", "delete", first, "dev", uplinkName)
	node.ip(t, "address", "add", other+"/24", "dev", uplinkName)
	await(other)
	node.ip(t, "address", "add", first, "dev", uplinkName)
	await(node.address.String())
}

// TestRouteMTULimitsTimedMessages configures an MTU at the route to the other node, and removes it, while ktsnd runs.
func TestRouteMTULimitsTimedMessages(t *testing.T) {
	t.Parallel()
	const mtu = 1400
	r := newReachable(t)
	listenUDPAt(t, r.b1, r.address(r.b1, true), 7788) // without one, the next call returns ECONNREFUSED
	await := func(size int, want syscall.Errno) {
		t.Helper()
		testlab.Eventually(t, patience, 20*time.Millisecond, func() error {
			if results := r.sendTimed(t, r.b1, size, 1); len(results) != 1 || results[0] != want {
				return fmt.Errorf("a message of %d bytes: %v, want %v", size, results, want)
			}
			return nil
		})
	}
	// 50 bytes are the tunnel's headers.
	fits := mtu - 50 - 28
	await(largest(true), 0)
	r.a.ip(t, "route", "add", "192.0.2.2/32", "dev", uplinkName, "mtu", strconv.Itoa(mtu))
	await(largest(true), syscall.EMSGSIZE)
	await(fits, 0)
	await(fits+1, syscall.EMSGSIZE)
	r.a.ip(t, "route", "delete", "192.0.2.2/32", "dev", uplinkName)
	await(largest(true), 0)
}

// listenUDPAt opens a UDP socket in a pod at a port.
func listenUDPAt(t *testing.T, p *pod, address netip.Addr, port uint16) *net.UDPConn {
	t.Helper()
	conn := within(t, p, func() (*net.UDPConn, error) {
		return net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(address, port)))
	})
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestUplinkAddressesAreFollowed gives the uplink of a node another MAC and IPv4 address while a talker sends. ktsnd and the
// tunnels use them, and the other node gets them.
func TestUplinkAddressesAreFollowed(t *testing.T) {
	t.Parallel()
	const mac, address = "02:00:5e:00:53:01", "192.0.2.101"
	r := newReachable(t)
	link := newLinked(r.a.newPod(t), r.b.newPod(t), linkVNI)
	link.plug(t)
	talker := startTalker(t, r.a1, r.a1.socket(), "--count", "1000000", "--to", netip.AddrPortFrom(r.address(r.b1, true), 7788).String())
	listener := listenUDPAt(t, r.b1, r.address(r.b1, true), 7788)
	sends := func(wantMAC, wantAddress string) error {
		tap := r.tap(t)
		time.Sleep(100 * time.Millisecond)
		capture, err := tap.Stop()
		if err != nil {
			return err
		}
		for _, packet := range capture.Packets {
			datagram, err := wiretap.Dissect(packet.Head)
			if err == nil && datagram.Destination.Port() == 7788 && net.HardwareAddr(packet.Head[6:12]).String() == wantMAC &&
				datagram.OuterSource.String() == wantAddress {
				return nil
			}
		}
		return fmt.Errorf("no datagram from %s %s among %d packets", wantMAC, wantAddress, len(capture.Packets))
	}
	r.a.ip(t, "link", "set", uplinkName, "address", mac)
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error { return sends(mac, "192.0.2.1") })

	r.a.ip(t, "address", "delete", "192.0.2.1/24", "dev", uplinkName)
	r.a.ip(t, "address", "add", address+"/24", "dev", uplinkName)
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error { return sends(mac, address) })
	if status, err := r.a.client.Status(t.Context()); err != nil || status.LocalAddress.String() != address {
		t.Errorf("ktsnd reports the address %v, %v", status, err)
	}
	r.a.address = netip.MustParseAddr(address)
	r.b.ktsn(t, "node", "peers", "add", "--vni", "42", address, "10.42.1.0/24")
	r.b.ktsn(t, "node", "peers", "del", "--vni", "42", "192.0.2.1")
	must(t, link.plugWith(t, r.b.runtime, link.endpoint)) // which has the other end's node
	out := r.a.ktsn(t, "node", "restore")
	for _, tunnel := range []string{tunnelName, overlay.TunnelName(linkVNI)} {
		if want := fmt.Sprintf("changed the address of %s from 192.0.2.1 to %s", tunnel, address); !strings.Contains(out, want) {
			t.Errorf("ktsn node restore reports %q, and not %q", out, want)
		}
	}
	for _, ends := range r.podPairs() {
		ping(t, ends[0], r.address(ends[1], true), largest(true))
	}
	ping(t, link.client.pod, netip.MustParsePrefix(link.endpoint.addresses[0]).Addr(), 56)
	_ = talker.Stop(patience)
	listener.Close()
	r.checkTimed(t, r.b1)
	must(t, r.a.runtime.GetStatusNetworkList(t.Context(), list(t, r.a.config(nil))))
}

// TestTakenTunnelPortIsNamed has something else use the tunnel's UDP port.
func TestTakenTunnelPortIsNamed(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	config := lab.a.config(nil)
	for taken, test := range map[string]struct {
		take    func(t *testing.T) (free func())
		message string
	}{
		"by a device": {func(t *testing.T) func() {
			lab.a.ip(t, "link", "add", "vxlan9", "type", "vxlan", "external", "dstport", "4789")
			lab.a.ip(t, "link", "set", "vxlan9", "up")
			return func() { lab.a.ip(t, "link", "delete", "vxlan9") }
		}, "the VXLAN device vxlan9 takes all packets to UDP port 4789; remove it, or give the network another port"},
		"by a program": {func(t *testing.T) func() {
			conn := within(t, lab.a.Namespace, func() (*net.UDPConn, error) { return net.ListenUDP("udp4", &net.UDPAddr{Port: 4789}) })
			return func() { conn.Close() }
		}, "another program or device uses UDP port 4789, and `ss -lunp sport = :4789` names a program"},
	} {
		t.Run(taken, func(t *testing.T) {
			free := test.take(t)
			pod := lab.a.newPod(t)
			checkRefused(t, lab.a.attach(list(t, config), pod.attachment()), 101, test.message)
			free()
			pod.add(t, config)
			pod.del(t, config)
		})
	}
}
