// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"bytes"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// plainPort is of a socket without a ring.
const plainPort = testPodPort + 100

// redirecting returns a world whose program redirects the pod's datagrams to its interface, with an ordinary socket in the pod.
func redirecting(t *testing.T) (w *world, socket int) {
	t.Helper()
	w = newWorld(t)
	w.endpoint.Redirect = true
	testlab.Must(t, w.maps.PutEndpoint(&w.endpoint))
	do(t, w.node, func() error { return w.raise(1600) })
	do(t, w.pod, func() (err error) {
		if socket, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if err := unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
			return err
		}
		return unix.Bind(socket, &unix.SockaddrInet4{Port: plainPort})
	})
	t.Cleanup(func() { unix.Close(socket) })
	return w, socket
}

func TestRedirect(t *testing.T) {
	w, socket := redirecting(t)
	got := make([]byte, 2048)
	for name, payload := range map[string][]byte{
		"of 0 bytes": {}, "of odd length": []byte("odd"), "of 64 bytes": filled(64), "of 1400 bytes": filled(1400),
	} {
		for _, noCheck := range []bool{false, true} {
			datagram := w.valid()
			datagram.podPort, datagram.payload, datagram.noCheck = plainPort, payload, noCheck
			before := w.counts(t)
			do(t, w.node, func() error { return sendByWire(datagram.bytes()) })
			count, from, err := testlab.Receive(socket, got)
			if err != nil || !bytes.Equal(got[:count], payload) {
				t.Fatalf("datagram %s: received %d bytes, %v", name, count, err)
			}
			if source, ok := from.(*unix.SockaddrInet4); !ok || netip.AddrFrom4(source.Addr) != testOther4 || source.Port != int(datagram.sourcePort) {
				t.Errorf("a datagram %s came from %+v", name, from)
			}
			if after := w.counts(t); after.Redirected != before.Redirected+1 || difference(before, after) != "" {
				t.Errorf("a datagram %s was counted as %+v, after %+v", name, after, before)
			}
		}
	}
}

func TestRedirectKeepsChecksums(t *testing.T) {
	w, socket := redirecting(t)
	wrong, right := w.valid(), w.valid()
	wrong.podPort, wrong.wrongCheck, wrong.payload = plainPort, true, []byte("wrong")
	right.podPort, right.payload = plainPort, []byte("right")
	for _, datagram := range []frame{wrong, right} {
		do(t, w.node, func() error { return sendByWire(datagram.bytes()) })
	}
	got := make([]byte, 64)
	if count, _, err := testlab.Receive(socket, got); err != nil || string(got[:count]) != "right" {
		t.Errorf("%q came, %v", got[:count], err)
	}
	if redirected := w.counts(t).Redirected; redirected != 2 {
		t.Errorf("%d datagrams were redirected", redirected)
	}
}

func TestRedirectVerdicts(t *testing.T) {
	const redirect = 7 // TC_ACT_REDIRECT
	w, _ := redirecting(t)
	w.openRing(t, 1<<16)
	for _, c := range []struct {
		name    string
		base    func() frame
		change  func(*frame)
		verdict int32
		want    string
	}{
		{"for a ring", w.valid, func(*frame) {}, taken, "received"},
		{"for a socket without a ring", w.valid, func(f *frame) { f.podPort = plainPort }, redirect, ""},
		{"for no socket", w.valid, func(f *frame) { f.podPort = 1 }, redirect, ""},
		{"over IPv6 for no ring", w.valid6, func(f *frame) { f.podPort = plainPort }, left, "no-socket"},
		{"a fragment", w.valid, func(f *frame) { f.podPort, f.fragment = plainPort, 0x2000 }, left, "fragment"},
		{"options of IPv4", w.valid, func(f *frame) { f.podPort, f.options = plainPort, []byte{1, 1, 1, 0} }, left, "options"},
		{"TCP", w.valid, func(f *frame) { f.podPort, f.protocol = plainPort, 6 }, left, "protocol"},
		{"ARP", w.valid, func(f *frame) { f.etherType = 0x0806 }, left, "protocol"},
		{"a source that is not behind the peer", w.valid, func(f *frame) { f.podPort, f.source = plainPort, netip.MustParseAddr("10.42.3.7") }, left, "peer"},
		{"another destination", w.valid, func(f *frame) { f.podPort, f.pod = plainPort, netip.MustParseAddr("10.42.1.3") }, left, "destination"},
		{"congestion experienced by the tunnel's packet", w.valid, func(f *frame) { f.podPort, f.outerMark = plainPort, 3 }, left, "tunnel"},
	} {
		t.Run(c.name, func(t *testing.T) {
			datagram := c.base()
			c.change(&datagram)
			before := w.counts(t)
			verdict := w.run(t, datagram.bytes())
			after := w.counts(t)
			if verdict != c.verdict || difference(before, after) != c.want || (after.Redirected != before.Redirected) != (c.verdict == redirect) {
				t.Errorf("the verdict was %d, want %d; it was counted as %q, want %q", verdict, c.verdict, difference(before, after), c.want)
			}
		})
	}
}

func TestRedirectVisibleInPod(t *testing.T) {
	w, socket := redirecting(t)
	datagram := w.valid()
	datagram.podPort = plainPort
	// The packet socket sees incoming frames of the interface, like packet filters of the pod.
	var seen int
	do(t, w.pod, func() (err error) {
		seen, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(0x0008)) // ETH_P_IP in network byte order
		if err != nil {
			return err
		}
		return unix.SetsockoptTimeval(seen, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5})
	})
	defer unix.Close(seen)
	do(t, w.node, func() error { return sendByWire(datagram.bytes()) })
	got := make([]byte, 2048)
	_, from, err := testlab.Receive(seen, got)
	at, ok := from.(*unix.SockaddrLinklayer)
	if err != nil || !ok || at.Ifindex != w.endpoint.Interface {
		t.Errorf("it was seen at %+v, %v; want the interface %d", from, err, w.endpoint.Interface)
	}
	if _, _, err := testlab.Receive(socket, got); err != nil {
		t.Errorf("it did not come: %v", err)
	}
}
