// SPDX-License-Identifier: Apache-2.0

//go:build insidevm

package netns_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
)

const (
	ethernetBytes, ipv4Bytes = 14, 20
	protocolESP, protocolUDP = 50, 17
)

// isIPv4 tells whether a frame is a packet of a protocol.
func isIPv4(frame []byte, protocol byte) bool {
	return len(frame) > ethernetBytes+ipv4Bytes && binary.BigEndian.Uint16(frame[12:]) == 0x0800 && frame[ethernetBytes+9] == protocol
}

// quiet is for how long nothing must come on a machine whose processors are emulated.
const quiet = 700 * time.Millisecond

func TestKernelEncryptsNetworks(t *testing.T) {
	l := newSecretLab(t)
	a, b := l.nodes[0], l.nodes[1]
	toB := l.tap("b")
	listener := b.listen(secretVNI)

	early := a.talk(secretVNI, b)
	_, _ = early.Write([]byte("before there are keys"))
	if got := hears(listener, quiet); len(got) != 0 {
		t.Errorf("before there are keys, the pod hears %q", got)
	}
	for _, frame := range toB.frames() {
		if isIPv4(frame, protocolUDP) {
			t.Errorf("before there are keys, the wire carries %x", frame)
		}
	}
	l.until("encrypted", func() bool {
		return l.condition(a) == "True AsAsked " && l.condition(b) == "True AsAsked " && a.sendsTo(t, b) && b.sendsTo(t, a)
	})

	// That there is nobody, ARP remembers from before there were keys.
	l.until("they talk", func() bool {
		_, _ = early.Write([]byte("now"))
		return len(hears(listener, quiet)) > 0
	})

	t.Run("TCP and large datagrams pass, and the wire carries ESP only", func(t *testing.T) { carriesESP(t, l, toB, listener) })
	t.Run("strangers are not heard", func(t *testing.T) { strangers(t, l, toB, listener) })
	t.Run("keys roll without loss", func(t *testing.T) { rolls(t, l, toB, listener) })
	t.Run("a revoked node is not heard", func(t *testing.T) { revoked(t, l, toB, listener) })
	t.Run("nothing is left", func(t *testing.T) { leaves(t, l) })
}

// sendsTo tells whether the kernel has a key for a node.
func (n *secretNode) sendsTo(t *testing.T, to *secretNode) bool {
	t.Helper()
	for _, state := range n.states(t) {
		if state.To == to.address {
			return true
		}
	}
	return false
}

func (n *secretNode) states(t *testing.T) (all []xfrm.Found) {
	t.Helper()
	check(t, n.Do(func() error {
		kernel, err := xfrm.Open(overlay.EncryptedPort)
		if err != nil {
			return err
		}
		defer kernel.Close()
		all, err = kernel.States()
		return err
	}))
	return all
}

func carriesESP(t *testing.T, l *secretLab, toB *wireEnd, listener *net.UDPConn) {
	a, b := l.nodes[0], l.nodes[1]
	toB.frames()
	talker := a.talk(secretVNI, b)
	largest := bytes.Repeat([]byte("x"), 1413-28)
	if _, err := talker.Write(largest); err != nil {
		t.Fatal(err)
	}
	if got := hears(listener, quiet); len(got) != 1 || got[0] != string(largest) {
		t.Fatalf("of one large datagram the pod hears %d", len(got))
	}
	var server net.Listener
	check(t, b.pods[secretVNI].Do(func() (err error) {
		server, err = net.Listen("tcp4", netip.AddrPortFrom(b.pod(secretVNI), talkPort).String())
		return err
	}))
	defer server.Close()
	go func() {
		if conn, err := server.Accept(); err == nil {
			_, _ = io.Copy(conn, conn)
			conn.Close()
		}
	}()
	var client net.Conn
	check(t, a.pods[secretVNI].Do(func() (err error) {
		client, err = net.DialTimeout("tcp4", server.Addr().String(), 10*time.Second)
		return err
	}))
	defer client.Close()
	sent := bytes.Repeat([]byte("kubernetsn"), 30_000)
	go func() { _, _ = client.Write(sent) }()
	received := make([]byte, len(sent))
	_ = client.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.ReadFull(client, received); err != nil || !bytes.Equal(received, sent) {
		t.Fatalf("TCP: %v", err)
	}
	count, most := 0, 0
	for _, frame := range toB.frames() {
		switch {
		case isIPv4(frame, protocolESP):
			count, most = count+1, max(most, len(frame)-ethernetBytes)
			if bytes.Contains(frame, []byte("kubernetsn")) || bytes.Contains(frame, largest[:64]) {
				t.Error("what pods say is on the wire")
			}
		case binary.BigEndian.Uint16(frame[12:]) == 0x0800:
			t.Errorf("the wire carries protocol %d", frame[ethernetBytes+9])
		}
	}
	// The largest is the one that the MTU of the pods allows for.
	if count < 10 || most > 1500 || most < 1500-3 {
		t.Errorf("%d packets of ESP, the largest with %d bytes", count, most)
	}
}

// forged is a frame of VXLAN in clear, from a pod of node a to one of node b.
func forged(t *testing.T, l *secretLab, vni uint32, port uint16, text string) []byte {
	t.Helper()
	a, b := l.nodes[0], l.nodes[1]
	inner := udp(a.pod(vni), b.pod(vni), 6000, talkPort, []byte(text))
	inner = append(ethernet(overlay.HardwareAddress(b.pod(vni)), overlay.HardwareAddress(a.pod(vni))), inner...)
	vxlan := make([]byte, 8)
	vxlan[0] = 8
	binary.BigEndian.PutUint32(vxlan[4:], vni<<8)
	return append(ethernet(b.hardware(t), a.hardware(t)), udp(a.address, b.address, 50000, port, append(vxlan, inner...))...)
}

func (n *secretNode) hardware(t *testing.T) (address net.HardwareAddr) {
	t.Helper()
	check(t, n.Do(func() error {
		link, err := netlink.LinkByName("phys0")
		if err == nil {
			address = link.Attrs().HardwareAddr
		}
		return err
	}))
	return address
}

func ethernet(to, from net.HardwareAddr) []byte {
	return append(append(append([]byte{}, to...), from...), 0x08, 0x00)
}

// udp is a packet without a checksum of UDP.
func udp(from, to netip.Addr, fromPort, toPort uint16, payload []byte) []byte {
	packet := make([]byte, ipv4Bytes+8, ipv4Bytes+8+len(payload))
	packet[0], packet[8], packet[9] = 0x45, 64, protocolUDP
	binary.BigEndian.PutUint16(packet[2:], uint16(len(packet)+len(payload)))
	copy(packet[12:], from.AsSlice())
	copy(packet[16:], to.AsSlice())
	var sum uint32
	for i := 0; i < ipv4Bytes; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(packet[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(packet[10:], ^uint16(sum+sum>>16))
	for at, value := range map[int]uint16{20: fromPort, 22: toPort, 24: uint16(8 + len(payload))} {
		binary.BigEndian.PutUint16(packet[at:], value)
	}
	return append(packet, payload...)
}

func strangers(t *testing.T, l *secretLab, toB *wireEnd, listener *net.UDPConn) {
	a, b := l.nodes[0], l.nodes[1]
	// That a frame like these is one at all shows the network that is not encrypted.
	clear := b.listen(clearVNI)
	toB.send(t, forged(t, l, clearVNI, 4789, "forged"))
	if got := hears(clear, quiet); fmt.Sprint(got) != "[forged]" {
		t.Fatalf("the network that is not encrypted hears %q", got)
	}
	for _, port := range []uint16{overlay.EncryptedPort, 4789} {
		toB.send(t, forged(t, l, secretVNI, port, "forged"))
		if got := hears(listener, quiet); len(got) != 0 {
			t.Errorf("in clear to port %d: the pod hears %q", port, got)
		}
	}
	toB.frames()
	talker := a.talk(secretVNI, b)
	_, err := talker.Write([]byte("once"))
	check(t, err)
	if got := hears(listener, quiet); fmt.Sprint(got) != "[once]" {
		t.Fatalf("the pod hears %q", got)
	}
	var recorded []byte
	for _, frame := range toB.frames() {
		if isIPv4(frame, protocolESP) {
			recorded = frame
		}
	}
	if recorded == nil {
		t.Fatal("the wire has carried no ESP")
	}
	changed := bytes.Clone(recorded)
	changed[len(changed)-20] ^= 1
	binary.BigEndian.PutUint32(changed[ethernetBytes+ipv4Bytes+4:], binary.BigEndian.Uint32(changed[ethernetBytes+ipv4Bytes+4:])+1)
	elsewhere := bytes.Clone(recorded)
	binary.BigEndian.PutUint32(elsewhere[ethernetBytes+ipv4Bytes:], 0x12345678)
	for what, frame := range map[string][]byte{"once more": recorded, "changed": changed, "by another SPI": elsewhere} {
		toB.send(t, frame)
		if got := hears(listener, quiet); len(got) != 0 {
			t.Errorf("%s: the pod hears %q", what, got)
		}
	}
}

func rolls(t *testing.T, l *secretLab, toB *wireEnd, listener *net.UDPConn) {
	a, b := l.nodes[0], l.nodes[1]
	toB.frames()
	talker := a.talk(secretVNI, b)
	end, stopped := make(chan struct{}), make(chan int)
	go func() {
		sent := 0
		for tick := time.Tick(5 * time.Millisecond); ; {
			select {
			case <-end:
				stopped <- sent
				return
			case <-tick:
				if _, err := fmt.Fprint(talker, sent); err == nil {
					sent++
				}
			}
		}
	}()
	received := make(chan int)
	go func() { received <- len(hears(listener, 3*time.Second)) }()
	spis, keys := map[uint32]int{}, map[string]bool{}
	note := func() {
		for _, frame := range toB.frames() {
			if isIPv4(frame, protocolESP) {
				spis[binary.BigEndian.Uint32(frame[ethernetBytes+ipv4Bytes:])]++
			}
		}
		keys[a.agent.Judge.Announced().Keys[0].ID] = true
	}
	const hours, step = 3, 2 * time.Minute
	for range hours * time.Hour / step {
		l.look(step)
		note()
		time.Sleep(20 * time.Millisecond)
	}
	close(end)
	sent, got := <-stopped, <-received
	note()
	t.Logf("%d datagrams, %d keys of node a in use, %d SPIs", sent, len(keys), len(spis))
	if got != sent || sent < 100 || len(keys) < hours || len(spis) < hours {
		t.Errorf("%d of %d datagrams arrived, by %d keys of node a and %d SPIs", got, sent, len(keys), len(spis))
	}
	var sums []string
	for spi, count := range spis {
		sums = append(sums, fmt.Sprintf("%#x: %d", spi, count))
	}
	t.Log(strings.Join(sums, ", "))
}

func revoked(t *testing.T, l *secretLab, toB *wireEnd, listener *net.UDPConn) {
	a, b := l.nodes[0], l.nodes[1]
	talker := a.talk(secretVNI, b)
	l.until("they talk", func() bool {
		_, _ = talker.Write([]byte("before"))
		return len(hears(listener, 100*time.Millisecond)) > 0
	})
	l.mu.Lock()
	l.announced["a"] = false
	l.mu.Unlock()
	lookAtB := func() {
		check(t, b.Do(func() error { return lookOnce(t, b) }))
	}
	lookAtB()
	l.pass(keysLinger)
	lookAtB()
	toB.frames()
	_, _ = talker.Write([]byte("after"))
	if got := hears(listener, quiet); len(got) != 0 {
		t.Errorf("the pod hears %q", got)
	}
	sent := 0
	for _, frame := range toB.frames() {
		if isIPv4(frame, protocolESP) {
			sent++
		}
	}
	if sent == 0 {
		t.Error("node a has sent nothing, so that nothing was dropped")
	}
	for _, state := range b.states(t) {
		t.Errorf("node b still has the key %v", state.Name)
	}
}

// leaves takes encryption off both nodes.
func leaves(t *testing.T, l *secretLab) {
	for _, n := range l.nodes {
		check(t, n.Do(func() error {
			kernel, err := xfrm.Open(overlay.EncryptedPort)
			if err != nil {
				return err
			}
			defer kernel.Close()
			if err := kernel.Clear(); err != nil {
				return err
			}
			policies, err := netlink.XfrmPolicyList(netlink.FAMILY_V4)
			if err != nil {
				return err
			}
			for _, policy := range policies {
				if policy.Dir <= netlink.XFRM_DIR_FWD {
					t.Errorf("node %s still has the policy %v", n.name, policy)
				}
			}
			return nil
		}))
		if left := n.states(t); len(left) > 0 {
			t.Errorf("node %s still has %v", n.name, left)
		}
	}
}

func lookOnce(t *testing.T, n *secretNode) error {
	_, err := n.agent.Reconcile(t.Context(), requestOfAll)
	return err
}
