// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// Verdicts of the program.
const (
	left    = -1 // TC_ACT_UNSPEC
	dropped = 2  // TC_ACT_SHOT
	taken   = 4  // TC_ACT_STOLEN
)

func TestVerdicts(t *testing.T) {
	w := newWorld(t)
	w.openRing(t, 1<<20)
	const received = "received"
	cases := []struct {
		name   string
		base   func() frame
		change func(*frame)
		want   string // "": not counted
	}{
		{"IPv4", w.valid, func(*frame) {}, received},
		{"IPv6", w.valid6, func(*frame) {}, received},
		{"no payload", w.valid, func(f *frame) { f.payload = nil }, received},
		{"no payload over IPv6", w.valid6, func(f *frame) { f.payload = nil }, received},
		{"odd length", w.valid, func(f *frame) { f.payload = []byte("odd") }, received},
		{"no checksum", w.valid, func(f *frame) { f.noCheck = true }, received},
		{"checksum of the tunnel", w.valid, func(f *frame) { f.outerCheck = 1 }, received},
		{"tunnel packet that may be marked by ECN", w.valid, func(f *frame) { f.outerMark = 2 }, received},
		{"don't fragment", w.valid, func(f *frame) { f.dontFragment = true }, received},
		{"padded frame", w.valid, func(f *frame) { f.trailer = make([]byte, 18) }, received},
		{"longest of a record of 256 bytes", w.valid, func(f *frame) { f.payload = filled(196) }, received},
		{"shortest of a record of 2048 bytes", w.valid, func(f *frame) { f.payload = filled(197) }, received},
		{"1400 bytes over IPv6", w.valid6, func(f *frame) { f.payload = filled(1400) }, received},
		{"3000 bytes", w.valid, func(f *frame) { f.payload = filled(3000) }, received},

		{"another protocol than IP", w.valid, func(f *frame) { f.outerTag = true }, ""},
		{"a frame that is too short for a tunnel", w.valid, func(f *frame) { f.cut = len(f.bytes()) - 60 }, ""},
		{"options in front of the tunnel", w.valid, func(f *frame) { f.outerOptions = true }, ""},
		{"a fragment of a tunnel's packet", w.valid, func(f *frame) { f.outerFragment = 0x2000 }, ""},
		{"other flags of VXLAN", w.valid, func(f *frame) { f.flags |= 1 << 31 }, ""},
		{"no flags of VXLAN", w.valid, func(f *frame) { f.flags = 0 }, ""},
		{"reserved bits after the VNI", w.valid, func(f *frame) { f.reserved = 1 }, ""},

		{"a foreign network", w.valid, func(f *frame) { f.vni = 43 }, "no-endpoint"},
		{"a foreign hardware address", w.valid, func(f *frame) { f.podMAC[5] ^= 1 }, "no-endpoint"},
		{"a group's hardware address", w.valid, func(f *frame) { f.podMAC = [6]byte{255, 255, 255, 255, 255, 255} }, "no-endpoint"},
		{"another port than the tunnel's", w.valid, func(f *frame) { f.port = 8472 }, "no-endpoint"},
		{"another node's address", w.valid, func(f *frame) { f.node = netip.MustParseAddr("192.0.2.3") }, "no-endpoint"},
		{"a frame for another host", w.valid, func(f *frame) { f.uplink[5] ^= 1 }, "not-host"},
		{"a wrong sum of the tunnel's header", w.valid, func(f *frame) { f.outerWrongHead = true }, "tunnel"},
		{"congestion experienced by the tunnel's packet", w.valid, func(f *frame) { f.outerMark = 3 }, "tunnel"},
		{"the mark 01 of ECN at the tunnel's packet", w.valid, func(f *frame) { f.outerMark = 1 }, "tunnel"},
		{"a source of a group's hardware address", w.valid, func(f *frame) { f.sourceMAC[0] |= 1 }, "tunnel"},
		{"no hardware address of a source", w.valid, func(f *frame) { f.sourceMAC = [6]byte{} }, "tunnel"},
		{"a frame that ends before the tunnel's packet", w.valid, func(f *frame) { f.cut = 1 }, "tunnel"},
		{"a tunnel's source that is no peer", w.valid, func(f *frame) { f.peer = netip.MustParseAddr("192.0.2.9") }, "peer"},
		{"a source that is not behind the peer", w.valid, func(f *frame) { f.source = netip.MustParseAddr("10.42.3.7") }, "peer"},
		{"a source of IPv6 that is not behind the peer", w.valid6, func(f *frame) { f.source = netip.MustParseAddr("fd42:3::7") }, "peer"},
		{"a tag inside", w.valid, func(f *frame) { f.etherType = 0x8100 }, "protocol"},
		{"ARP inside", w.valid, func(f *frame) { f.etherType = 0x0806 }, "protocol"},
		{"IPv6 that says to be IPv4", w.valid6, func(f *frame) { f.etherType = 0x0800 }, "protocol"},
		{"TCP inside", w.valid, func(f *frame) { f.protocol = 6 }, "protocol"},
		{"a header extension of IPv6", w.valid6, func(f *frame) { f.protocol = 0 }, "protocol"},
		{"the first fragment", w.valid, func(f *frame) { f.fragment = 0x2000 }, "fragment"},
		{"a later fragment", w.valid, func(f *frame) { f.fragment = 8 }, "fragment"},
		{"a fragment of IPv6", w.valid6, func(f *frame) { f.protocol = 44 }, "fragment"},
		{"options of IPv4", w.valid, func(f *frame) { f.options = []byte{1, 1, 1, 0} }, "options"},
		{"a wrong sum of the header", w.valid, func(f *frame) { f.wrongHeader = true }, "header"},
		{"UDP that ends before IP", w.valid, func(f *frame) { f.udpLess = 1 }, "length"},
		{"UDP that ends behind IP", w.valid, func(f *frame) { f.ipLess = 1 }, "length"},
		{"UDP of IPv6 that ends behind IP", w.valid6, func(f *frame) { f.ipLess = 1 }, "length"},
		{"a length of UDP less than its header's", w.valid, func(f *frame) { f.udpLess = 9 }, "length"},
		{"a datagram that ends behind the tunnel's packet", w.valid, func(f *frame) { f.outerLess = 1 }, "length"},
		{"nothing behind the hardware addresses", w.valid, func(f *frame) { f.payload = nil; f.cut, f.outerLess = 28, 28 }, "length"},
		{"another destination inside", w.valid, func(f *frame) { f.pod = netip.MustParseAddr("10.42.1.3") }, "destination"},
		{"a group inside", w.valid, func(f *frame) { f.pod = netip.MustParseAddr("239.0.0.1") }, "destination"},
		{"another destination of IPv6 inside", w.valid6, func(f *frame) { f.pod = netip.MustParseAddr("fd42:1::3") }, "destination"},
		{"the pod's own address as source", w.valid, func(f *frame) { f.source = testPod4 }, "destination"},
		{"a group as source", w.valid, func(f *frame) { f.source = netip.MustParseAddr("239.0.0.1") }, "source"},
		{"no source", w.valid, func(f *frame) { f.source = netip.MustParseAddr("0.0.0.0") }, "source"},
		{"loopback as source", w.valid, func(f *frame) { f.source = netip.MustParseAddr("127.0.0.1") }, "source"},
		{"a link-local source", w.valid6, func(f *frame) { f.source = netip.MustParseAddr("fe80::7") }, "source"},
		{"loopback of IPv6 as source", w.valid6, func(f *frame) { f.source = netip.MustParseAddr("::1") }, "source"},
		{"a port of no socket", w.valid, func(f *frame) { f.podPort = 7001 }, "no-socket"},
		{"a wrong checksum", w.valid, func(f *frame) { f.wrongCheck = true }, "checksum"},
		{"a wrong checksum of IPv6", w.valid6, func(f *frame) { f.wrongCheck = true }, "checksum"},
		{"a wrong checksum of 3000 bytes", w.valid, func(f *frame) { f.wrongCheck, f.payload = true, filled(3000) }, "checksum"},
		{"no checksum but the tunnel's", w.valid, func(f *frame) { f.noCheck, f.outerCheck = true, 1 }, "checksum"},
		{"no checksum with IPv6", w.valid6, func(f *frame) { f.noCheck = true }, "checksum"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			datagram := c.base()
			c.change(&datagram)
			sent := datagram.bytes()
			before := w.counts(t)
			verdict := w.run(t, sent)
			after := w.counts(t)
			if want := map[bool]int32{true: taken, false: left}[c.want == received]; verdict != want {
				t.Errorf("the verdict was %d, want %d", verdict, want)
			}
			if got := difference(before, after); got != c.want {
				t.Errorf("it was counted as %q, want %q", got, c.want)
			}
			if expected := w.takes(sent); expected != (c.want == received) {
				t.Errorf("takes returns %v", expected)
			}
		})
	}
}

func filled(bytes int) []byte {
	payload := make([]byte, bytes)
	for i := range payload {
		payload[i] = byte(i * 7)
	}
	return payload
}

// difference returns the names of the counters that grew.
func difference(before, after *Counts) string {
	var names []string
	if after.Received != before.Received {
		names = append(names, "received")
	}
	if after.Full != before.Full {
		names = append(names, "full")
	}
	for reason, count := range after.Left {
		if count != before.Left[reason] {
			names = append(names, reason)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " and ")
}

// BPF_PROG_TEST_RUN takes at most a page.
func TestVerdictsOfLongDatagrams(t *testing.T) {
	w := newWorld(t)
	w.openRing(t, 1<<20)
	do(t, w.node, func() error { return w.raise(9600) })
	for _, c := range []struct {
		name   string
		base   func() frame
		change func(*frame)
		want   string
	}{
		{"8000 bytes", w.valid, func(f *frame) { f.payload = filled(8000) }, "received"},
		{"8001 bytes over IPv6", w.valid6, func(f *frame) { f.payload = filled(8001) }, "received"},
		{"8000 bytes with a wrong checksum", w.valid, func(f *frame) { f.payload, f.wrongCheck = filled(8000), true }, "checksum"},
		{"the longest", w.valid, func(f *frame) { f.payload = filled(9156) }, "received"},
		{"more than that", w.valid, func(f *frame) { f.payload = filled(9157) }, "too-long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			datagram := c.base()
			c.change(&datagram)
			before := w.counts(t)
			do(t, w.node, func() error { return sendByWire(datagram.bytes()) })
			got := ""
			for end := time.Now().Add(5 * time.Second); got == "" && time.Now().Before(end); time.Sleep(time.Millisecond) {
				got = difference(before, w.counts(t))
			}
			if got != c.want {
				t.Errorf("it was counted as %q, want %q", got, c.want)
			}
			if expected := w.takes(datagram.bytes()); expected != (c.want == "received") {
				t.Errorf("takes returns %v", expected)
			}
		})
	}
}

// raise sets the MTU of both ends of the uplink and sets them up.
func (w *world) raise(mtu int) error {
	for _, name := range []string{uplinkName, "wire"} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := errors.Join(netlink.LinkSetMTU(link, mtu), netlink.LinkSetUp(link)); err != nil {
			return err
		}
	}
	return nil
}

// sendByWire sends a raw frame to the uplink.
func sendByWire(frame []byte) error {
	link, err := netlink.LinkByName("wire")
	if err != nil {
		return err
	}
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	return unix.Sendto(socket, frame, 0, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index})
}

// record is struct ktsn_receive_header of datapath/ring/receive_layout.h.
type record struct {
	TimeTAINs    uint64
	Family       uint16
	SourcePort   [2]byte
	PayloadBytes uint16
	TOS, TTL     uint8
	Interface    uint32
	Reserved     uint32
	Source       [16]byte
	Destination  [16]byte
}

func TestRecord(t *testing.T) {
	w := newWorld(t)
	w.openRing(t, 1<<20)
	// With a sleeping reader each record causes a wake-up.
	w.tellControl(t, 1, 1)
	reader, err := ringbuf.NewReader(w.ring)
	testlab.Must(t, err)
	defer reader.Close()
	for _, c := range []struct {
		name   string
		sent   frame
		family uint16
		tos    uint8
		bytes  int
	}{
		{"IPv4", w.valid(), unix.AF_INET, 0xb8, 8},
		{"IPv6", w.valid6(), unix.AF_INET6, 0xb8, 8},
		{"IPv4, longer than the small record", w.valid(), unix.AF_INET, 0xb8, 1001},
		{"IPv6, longer than the medium record", w.valid6(), unix.AF_INET6, 0xb8, 3003},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.sent.payload = filled(c.bytes)
			if verdict := w.run(t, c.sent.bytes()); verdict != taken {
				t.Fatalf("the verdict was %d", verdict)
			}
			reader.SetDeadline(time.Now().Add(5 * time.Second))
			raw, err := reader.Read()
			testlab.Must(t, err)
			var got record
			testlab.Must(t, binary.Read(bytes.NewReader(raw.RawSample), binary.NativeEndian, &got))
			var clock unix.Timespec
			testlab.Must(t, unix.ClockGettime(unix.CLOCK_TAI, &clock))
			if age := clock.Nano() - int64(got.TimeTAINs); age < 0 || age > int64(5*time.Second) {
				t.Errorf("the time is %d ns ago", age)
			}
			want := record{
				TimeTAINs: got.TimeTAINs, Family: c.family, SourcePort: [2]byte{0x13, 0x88}, PayloadBytes: uint16(c.bytes), TOS: c.tos,
				TTL: 63, Interface: uint32(w.endpoint.Interface),
			}
			copy(want.Source[:], c.sent.source.AsSlice())
			copy(want.Destination[:], c.sent.pod.AsSlice())
			if got != want {
				t.Errorf("the header is %+v, want %+v", got, want)
			}
			payload := raw.RawSample[binary.Size(got):][:c.bytes]
			if !bytes.Equal(payload, c.sent.payload) {
				t.Error("the payload differs")
			}
		})
	}
}

func TestFullRing(t *testing.T) {
	w := newWorld(t)
	w.openRing(t, 4096)
	datagram := w.valid()
	verdicts := map[int32]int{}
	for range 20 {
		verdicts[w.run(t, datagram.bytes())]++
	}
	// A record takes 264 bytes, and a ring is never full to the last byte.
	if verdicts[taken] != 15 || verdicts[dropped] != 5 {
		t.Errorf("the verdicts were %v", verdicts)
	}
	counts := w.counts(t)
	var control [16]uint64
	testlab.Must(t, w.control.Lookup(uint32(0), &control))
	if counts.Received != 15 || counts.Full != 5 || control[8] != 5 || control[9] != 15 {
		t.Errorf("it counted %+v, and in the control page %v", counts, control)
	}
}

func TestRingWithoutReaders(t *testing.T) {
	w := newWorld(t)
	w.openRing(t, 1<<16)
	datagram := w.valid()
	w.tellControl(t, 0, 0)
	if verdict := w.run(t, datagram.bytes()); verdict != left || w.counts(t).Left["no-ring"] != 1 {
		t.Errorf("the verdict was %d, %+v", verdict, w.counts(t))
	}
	w.tellControl(t, 0, 2)
	if verdict := w.run(t, datagram.bytes()); verdict != taken || w.counts(t).Received != 1 {
		t.Errorf("with readers the verdict was %d, %+v", verdict, w.counts(t))
	}
}

func TestSocketOfOtherNamespace(t *testing.T) {
	w := newWorld(t)
	w.openRing(t, 1<<16)
	// As if the number of a namespace had been reused.
	w.endpoint.Netns.Cookie++
	testlab.Must(t, w.maps.PutEndpoint(&w.endpoint))
	datagram := w.valid()
	if verdict := w.run(t, datagram.bytes()); verdict != left || w.counts(t).Left["foreign"] != 1 {
		t.Errorf("the verdict was %d, %+v", verdict, w.counts(t))
	}
}

func TestSocketBoundToDevice(t *testing.T) {
	w := newWorld(t)
	socket := w.openRing(t, 1<<16)
	do(t, w.pod, func() error { return unix.SetsockoptString(socket, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "tsn0") })
	datagram := w.valid()
	if verdict := w.run(t, datagram.bytes()); verdict != left {
		t.Errorf("the verdict was %d", verdict)
	}
}

func TestPeerAndEndpointChanges(t *testing.T) {
	w := newWorld(t)
	w.openRing(t, 1<<16)
	datagram := w.valid()
	sent := datagram.bytes()
	verdictAfter := func(change error) int32 {
		t.Helper()
		if change != nil {
			t.Fatal(change)
		}
		return w.run(t, sent)
	}
	// Peers of another network or of another node on this machine do not matter.
	if verdict := verdictAfter(errors.Join(w.maps.SetPeers(43, testNode, nil), w.maps.SetPeers(testVNI, testPeer, nil))); verdict != taken {
		t.Errorf("without others' peers the verdict was %d", verdict)
	}
	if verdict := verdictAfter(w.maps.SetPeers(testVNI, testNode, nil)); verdict != left {
		t.Errorf("without peers the verdict was %d", verdict)
	}
	if verdict := verdictAfter(w.maps.SetPeers(testVNI, testNode, peersWithout4())); verdict != taken {
		t.Errorf("of a peer with no subnet of the family the verdict was %d", verdict)
	}
	if verdict := verdictAfter(w.maps.DelEndpoint(testVNI, w.endpoint.MAC)); verdict != left {
		t.Errorf("without the pod the verdict was %d", verdict)
	}
}

// peersWithout4 returns the world's peers without their IPv4 subnets.
func peersWithout4() []control.Peer {
	return []control.Peer{{VNI: testVNI, Address: testPeer, Subnets: testBehind[1:]}}
}

func TestReasonsAreComplete(t *testing.T) {
	w := newWorld(t)
	if places := int(w.maps.counts.MaxEntries()); places != len(reasons) {
		t.Errorf("the program has %d counters, %d have a name", places, len(reasons))
	}
	if Explain("peer") == "peer" || Explain("none") != "none" {
		t.Error("reasons are not explained")
	}
}
