// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	current "github.com/containernetworking/cni/pkg/types/100"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
	"github.com/kubernetsn/kubernetsn/internal/testlab/wiretap"
)

// reachable are three pods, two on node a and one on node b, and their addresses of both families.
type reachable struct {
	*lab
	a1, a2, b1 *pod
	addresses  map[*pod]*current.Result
}

// newReachable attaches three pods to one network over two nodes, each of which knows the other as its peer.
func newReachable(t *testing.T) *reachable {
	t.Helper()
	return newLinkLab(t).reachable(t)
}

// reachable attaches the pods. Both nodes have ktsnd.
func (l *lab) reachable(t *testing.T) *reachable {
	t.Helper()
	l.a.ktsn(t, "node", "peers", "add", "--vni", "42", l.b.address.String(), "10.42.2.0/24")
	l.b.ktsn(t, "node", "peers", "add", "--vni", "42", l.a.address.String(), "10.42.1.0/24")
	r := &reachable{lab: l, a1: l.a.newPod(t), a2: l.a.newPod(t), b1: l.b.newPod(t), addresses: map[*pod]*current.Result{}}
	for _, pod := range []*pod{r.a1, r.a2, r.b1} {
		r.addresses[pod] = pod.add(t, pod.node.config(fields{"ipam": pod.node.dualStack()}))
	}
	return r
}

// dualStack gives an address of each family, and routes to those of all nodes.
func (n *node) dualStack() fields {
	ipam := n.hostLocal(n.subnet, "10.42.0.0/16", "fd00:42::/32", "224.0.0.0/4")
	third := n.subnet.Addr().As4()[2]
	ipam["ranges"] = [][]fields{{{"subnet": n.subnet.String()}}, {{"subnet": fmt.Sprintf("fd00:42:%d::/64", third)}}}
	return ipam
}

func (r *reachable) address(p *pod, ipv4 bool) netip.Addr { return addressOf(r.addresses[p], ipv4) }

// podPairs returns the pairs of pods, by name.
func (r *reachable) podPairs() map[string][2]*pod {
	return map[string][2]*pod{"on one node": {r.a1, r.a2}, "from node to node": {r.a1, r.b1}, "and back": {r.b1, r.a2}}
}

var families = map[string]bool{"IPv4": true, "IPv6": false}

func TestPodsReachEachOther(t *testing.T) {
	t.Parallel()
	r := newReachable(t)
	for way, ends := range r.podPairs() {
		for family, ipv4 := range families {
			from, to := ends[0], ends[1]
			source, target := r.address(from, ipv4), r.address(to, ipv4)
			t.Run("ICMP "+way+" over "+family, func(t *testing.T) { ping(t, from, target, 56) })
			t.Run("largest ICMP "+way+" over "+family, func(t *testing.T) { ping(t, from, target, largest(ipv4)) })
			t.Run("UDP "+way+" over "+family, func(t *testing.T) { checkUDP(t, from, to, source, target, 56) })
			t.Run("largest UDP "+way+" over "+family, func(t *testing.T) { checkUDP(t, from, to, source, target, largest(ipv4)) })
			t.Run("oversized UDP "+way+" over "+family, func(t *testing.T) { checkTooLarge(t, from, target, largest(ipv4)+1) })
			t.Run("TCP "+way+" over "+family, func(t *testing.T) { checkTCP(t, from, to, target) })
		}
	}
	t.Run("multicast from one pod to those of both nodes", func(t *testing.T) { checkMulticast(t, r) })
}

// largest is the payload that fills the pods' MTU.
func largest(ipv4 bool) int {
	if ipv4 {
		return 1450 - 20 - 8
	}
	return 1450 - 40 - 8
}

// ping sends an echo request by a raw socket and waits for the reply.
func ping(t *testing.T, from *pod, to netip.Addr, payloadBytes int) {
	t.Helper()
	network, request, reply := "ip4:icmp", byte(8), byte(0)
	if !to.Is4() {
		network, request, reply = "ip6:ipv6-icmp", 128, 129
	}
	conn := within(t, from, func() (*net.IPConn, error) { return net.DialIP(network, nil, &net.IPAddr{IP: to.AsSlice()}) })
	defer conn.Close()
	message := make([]byte, 8+payloadBytes)
	message[0], message[7] = request, 1
	if to.Is4() { // for IPv6 the kernel does it
		binary.BigEndian.PutUint16(message[2:], checksum(message))
	}
	if _, err := conn.Write(message); err != nil {
		t.Fatal(err)
	}
	must(t, conn.SetReadDeadline(time.Now().Add(patience)))
	buffer := make([]byte, 2000)
	for {
		length, _, err := conn.ReadFromIP(buffer) // without the IPv4 header
		if err != nil {
			t.Fatalf("no reply: %v", err)
		}
		if buffer[0] == reply && length == len(message) {
			return
		}
	}
}

// checksum returns the checksum of RFC 1071.
func checksum(message []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(message); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(message[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// listenUDP opens a UDP socket in a pod.
func listenUDP(t *testing.T, p *pod, address netip.Addr) *net.UDPConn {
	t.Helper()
	conn := within(t, p, func() (*net.UDPConn, error) {
		return net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(address, 0)))
	})
	t.Cleanup(func() { conn.Close() })
	must(t, conn.SetReadDeadline(time.Now().Add(patience)))
	return conn
}

func checkUDP(t *testing.T, from, to *pod, source, target netip.Addr, payloadBytes int) {
	t.Helper()
	listener := listenUDP(t, to, target)
	talker := listenUDP(t, from, source)
	sent := strings.Repeat("x", payloadBytes)
	if _, err := talker.WriteTo([]byte(sent), listener.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 2000)
	length, sender, err := listener.ReadFromUDPAddrPort(buffer)
	if err != nil || string(buffer[:length]) != sent || sender.Addr().Unmap() != source {
		t.Errorf("%d bytes arrived from %s, %v", length, sender, err)
	}
}

// checkTooLarge sends a datagram that does not fit and must not be fragmented.
func checkTooLarge(t *testing.T, from *pod, target netip.Addr, payloadBytes int) {
	t.Helper()
	var err error
	must(t, from.Do(func() error {
		conn, errDial := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(target, 9)))
		if errDial != nil {
			return errDial
		}
		defer conn.Close()
		raw, errRaw := conn.SyscallConn()
		if errRaw != nil {
			return errRaw
		}
		var errOption error
		errControl := raw.Control(func(fd uintptr) {
			if target.Is4() {
				errOption = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
			} else {
				errOption = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1)
			}
		})
		_, err = conn.Write(make([]byte, payloadBytes))
		return errors.Join(errControl, errOption)
	}))
	if !errors.Is(err, syscall.EMSGSIZE) {
		t.Errorf("the kernel reports %v, want %v", err, syscall.EMSGSIZE)
	}
}

func checkTCP(t *testing.T, from, to *pod, target netip.Addr) {
	t.Helper()
	listener := within(t, to, func() (*net.TCPListener, error) {
		return net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(target, 0)))
	})
	defer listener.Close()
	const bytes = 1 << 20
	received := make(chan error, 1)
	go func() {
		must := listener.SetDeadline(time.Now().Add(patience))
		conn, err := listener.Accept()
		if err = errors.Join(must, err); err == nil {
			var count int64
			count, err = io.Copy(io.Discard, conn)
			if count != bytes {
				err = errors.Join(err, fmt.Errorf("%d of %d bytes arrived", count, bytes))
			}
			conn.Close()
		}
		received <- err
	}()
	conn := within(t, from, func() (*net.TCPConn, error) { return net.DialTCP("tcp", nil, listener.Addr().(*net.TCPAddr)) })
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err := conn.Write(make([]byte, bytes))
	must(t, errors.Join(err, conn.Close(), <-received))
}

// checkMulticast sends from one pod to a group that two other pods have joined.
func checkMulticast(t *testing.T, r *reachable) {
	t.Helper()
	group := &net.UDPAddr{IP: net.IPv4(239, 42, 42, 42), Port: 7790}
	var members []*net.UDPConn
	for _, member := range []*pod{r.a2, r.b1} {
		must(t, member.Do(func() error {
			link, err := net.InterfaceByName(podIf)
			if err != nil {
				return err
			}
			conn, err := net.ListenMulticastUDP("udp4", link, group)
			members = append(members, conn)
			return err
		}))
	}
	talker := listenUDP(t, r.a1, r.address(r.a1, true))
	if _, err := talker.WriteTo([]byte("to all"), group); err != nil {
		t.Fatal(err)
	}
	for i, member := range members {
		must(t, member.SetReadDeadline(time.Now().Add(patience)))
		buffer := make([]byte, 100)
		length, _, err := member.ReadFromUDP(buffer)
		if err != nil || string(buffer[:length]) != "to all" {
			t.Errorf("member %d received %q, %v", i, buffer[:length], err)
		}
		member.Close()
	}
}

// TestTimedTrafficLeavesThroughKtsnd sends timed messages from a pod to one on the same and one on the other node,
// before and after a restart of ktsnd, and checks that the kernel's traffic continues.
func TestTimedTrafficLeavesThroughKtsnd(t *testing.T) {
	r := newReachable(t)
	target := r.address(r.b1, true)
	r.checkTimed(t, r.b1)
	r.checkTimed(t, r.a2)

	r.a.stopDaemon(t)
	ping(t, r.a1, target, 56)
	checkTCP(t, r.a1, r.b1, target)

	r.a.startDaemon(t)
	r.a.ktsn(t, "node", "restore")
	r.checkTimed(t, r.b1)
	r.checkTimed(t, r.a2)
}

// checkTimed sends timed messages and checks their path.
func (r *reachable) checkTimed(t *testing.T, to *pod) {
	t.Helper()
	const count = 50
	before := r.a.counters(t)
	tap := r.tap(t)
	file := filepath.Join(to.node.dir, "listener.csv")
	listener := r.startListener(t, to, file, count)
	talker := startTalker(t, r.a1, r.a1.socket(), "--count", strconv.Itoa(count), "--to", netip.AddrPortFrom(r.address(to, true), 7788).String())
	must(t, errors.Join(talker.Wait(), listener.Wait()))
	received := testlab.ReadFile(t, file, tsnperf.ReadListener)
	for _, message := range received {
		if message.Source.Addr() != r.address(r.a1, true) {
			t.Errorf("message %d arrived from %s", message.Sequence, message.Source)
		}
	}
	onWire, onBridge := count, 0
	if to.node == r.a {
		onWire, onBridge = 0, count
	}
	after := r.a.counters(t)
	if sent, bridged := after.Sent-before.Sent, after.SentBridge-before.SentBridge; len(received) != count ||
		sent != uint64(count) || bridged != uint64(onBridge) {
		t.Errorf("of %d messages ktsnd sent %d, %d of them onto the bridge, and %d arrived", count, sent, bridged, len(received))
	}
	if seen := datagrams(t, tap); seen != onWire {
		t.Errorf("%d datagrams were on the wire, want %d", seen, onWire)
	}
}

// tap captures at the other end of the wire.
func (r *reachable) tap(t *testing.T) *wiretap.Tap {
	t.Helper()
	return within(t, r.b, func() (*wiretap.Tap, error) { return wiretap.Open(uplinkName, 2000) })
}

// datagrams counts the UDP datagrams inside the tunnel.
func datagrams(t *testing.T, tap *wiretap.Tap) int {
	t.Helper()
	capture, err := tap.Stop()
	must(t, err)
	count := 0
	for _, packet := range capture.Packets {
		if _, err := wiretap.Dissect(packet.Head); err == nil {
			count++
		} else if !errors.Is(err, wiretap.ErrOther) {
			t.Error(err)
		}
	}
	return count
}

func (n *node) counters(t *testing.T) control.Counters {
	t.Helper()
	status, err := n.client.Status(t.Context())
	must(t, err)
	return status.Counters
}

// socket returns the path of the pod's socket of ktsnd.
func (p *pod) socket() string {
	return filepath.Join(p.node.dir, "pods", p.identity(), "app.sock")
}

// startTalker starts a talker with libktsn in a pod.
func startTalker(t *testing.T, in *pod, socket string, arguments ...string) *process.Process {
	t.Helper()
	talker := exec.Command(program(t, "tsnperf"), append([]string{"talker", "--quiet"}, arguments...)...)
	talker.Env = append(os.Environ(), "LD_PRELOAD="+program(t, "libktsn.so"), "KTSN_SOCKET="+socket)
	return start(t, in, "talker", talker)
}

// startListener starts a listener and returns when it listens.
func (r *reachable) startListener(t *testing.T, in *pod, file string, count int) *process.Process {
	t.Helper()
	return startListenerAt(t, in, netip.AddrPortFrom(r.address(in, true), 7788), file, count)
}

func startListenerAt(t *testing.T, in *pod, at netip.AddrPort, file string, count int) *process.Process {
	t.Helper()
	readable, writable, err := os.Pipe()
	must(t, err)
	defer readable.Close()
	command := exec.Command(program(t, "tsnperf"), "listener", "--block", "--quiet", "--csv", file, "--ready-fd", "3",
		"--bind", at.String(), "--count", strconv.Itoa(count),
		"--first-timeout", "5s", "--idle-timeout", "2s")
	command.ExtraFiles = []*os.File{writable}
	listener := start(t, in.Namespace, "listener", command)
	writable.Close()
	must(t, readable.SetReadDeadline(time.Now().Add(patience)))
	if _, err := readable.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the listener is not ready: %v; its log: %s", err, listener.Stderr())
	}
	return listener
}

// TestOversizedTimedMessagesAreRejected checks that ktsnd uses the MTU that tsn-cni chose. A listener avoids
// ECONNREFUSED in the next call.
func TestOversizedTimedMessagesAreRejected(t *testing.T) {
	t.Parallel()
	r := newReachable(t)
	listener := listenUDP(t, r.b1, r.address(r.b1, true))
	for size, want := range map[int]bool{largest(true): true, largest(true) + 1: false} {
		file := filepath.Join(r.a.dir, "talker.csv")
		talker := startTalker(t, r.a1, r.a1.socket(), "--count", "3", "--csv", file, "--size", strconv.Itoa(size), "--to", listener.LocalAddr().String())
		_ = talker.Wait() // the file contains the calls' results
		sent := testlab.ReadFile(t, file, tsnperf.ReadTalker)
		if len(sent) != 3 {
			t.Errorf("%d of 3 calls of %d bytes were made", len(sent), size)
		}
		for _, call := range sent {
			if (call.Errno == 0) != want || (!want && syscall.Errno(call.Errno) != syscall.EMSGSIZE) {
				t.Errorf("a send call of %d bytes got errno %d", size, call.Errno)
			}
		}
	}
}
