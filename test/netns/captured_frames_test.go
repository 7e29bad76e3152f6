// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"encoding/binary"
	"errors"
	"maps"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// framing describes a frame of pod a, from the outermost header to the innermost.
type framing struct {
	source, destination net.HardwareAddr
	// tag is an 802.1Q tag, nil for none.
	tag          *layers.Dot1Q
	from, to     netip.Addr
	port         uint16
	payloadBytes int
	// inside replaces the mark as the datagram's payload.
	inside []byte
	// untimed means that it leaves as soon as possible.
	untimed bool
	// record precedes the frame like the record of the kernel's program. If nil, the socket has the time.
	record *ownRecord
	// claims replaces the datagram by an answer of ARP or ND that claims the address.
	claims bool
}

// ownRecord is a record that a pod can write itself: datapath/capture/record.h.
type ownRecord struct {
	version, what uint8
	// source is the record's source if it differs from the frame's.
	source net.HardwareAddr
	// cut truncates the record to this many bytes.
	cut int
}

// validFrame returns a valid frame from pod a to pod b.
func (c *captured) validFrame(t *testing.T) *framing {
	t.Helper()
	return &framing{source: interfaceMAC(t, c.PodA), destination: interfaceMAC(t, c.PodB), from: topology.PodAddressA, to: topology.PodAddressB,
		port: listenPort, payloadBytes: 64}
}

// frame serialises it with a mark that contains its transmit time.
func (f *framing) frame(t *testing.T, at int64) []byte {
	t.Helper()
	ether := &layers.Ethernet{SrcMAC: f.source, DstMAC: f.destination, EthernetType: layers.EthernetTypeIPv4}
	all := []gopacket.SerializableLayer{ether}
	if f.tag != nil {
		ether.EthernetType, f.tag.Type = layers.EthernetTypeDot1Q, layers.EthernetTypeIPv4
		all = append(all, f.tag)
	}
	ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: f.from.AsSlice(), DstIP: f.to.AsSlice()}
	udp := &layers.UDP{SrcPort: 6000, DstPort: layers.UDPPort(f.port)}
	must(t, udp.SetNetworkLayerForChecksum(ip))
	above := []gopacket.SerializableLayer{ip, udp}
	if f.claims {
		ether.EthernetType, above = f.claim(t)
	}
	payload := f.inside
	if payload == nil {
		payload = markedPayload(0, at, f.payloadBytes)
	}
	buffer := gopacket.NewSerializeBuffer()
	must(t, gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		append(append(all, above...), gopacket.Payload(payload))...))
	if f.record == nil {
		return buffer.Bytes()
	}
	return append(f.record.bytes(f, at), buffer.Bytes()...)[:f.recordedBytes(len(buffer.Bytes()))]
}

// claim returns an answer of ARP or ND.
func (f *framing) claim(t *testing.T) (layers.EthernetType, []gopacket.SerializableLayer) {
	t.Helper()
	if f.from.Is4() {
		return layers.EthernetTypeARP, []gopacket.SerializableLayer{&layers.ARP{
			AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: layers.ARPReply,
			SourceHwAddress: f.source, SourceProtAddress: f.from.AsSlice(), DstHwAddress: f.destination, DstProtAddress: f.to.AsSlice(),
		}}
	}
	ip := &layers.IPv6{Version: 6, HopLimit: 255, NextHeader: layers.IPProtocolICMPv6, SrcIP: f.from.AsSlice(), DstIP: podAddress6B.AsSlice()}
	icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(layers.ICMPv6TypeNeighborAdvertisement, 0)}
	must(t, icmp.SetNetworkLayerForChecksum(ip))
	return layers.EthernetTypeIPv6, []gopacket.SerializableLayer{ip, icmp, &layers.ICMPv6NeighborAdvertisement{Flags: 0x60,
		TargetAddress: f.from.AsSlice(), Options: layers.ICMPv6Options{{Type: layers.ICMPv6OptTargetAddress, Data: f.source}}}}
}

// recordBytes is KTSN_RECORD_BYTES.
const recordBytes = 24

func (f *framing) recordedBytes(frameBytes int) int {
	if f.record.cut > 0 {
		return f.record.cut
	}
	return recordBytes + frameBytes
}

func (r *ownRecord) bytes(f *framing, at int64) []byte {
	source := f.source
	if r.source != nil {
		source = r.source
	}
	head := append(append([]byte{}, f.destination...), source...)
	head = binary.BigEndian.AppendUint16(head, etherType)
	return binary.BigEndian.AppendUint64(append(head, r.version, r.what), uint64(at))
}

// packetSender returns a packet socket at pod a's interface with transmit times of CLOCK_TAI.
func (c *captured) packetSender(t *testing.T, timed bool) int {
	t.Helper()
	fd := frameSocket(t, c.PodA, topology.PodInterface, 0)
	t.Cleanup(func() { unix.Close(fd) })
	if timed {
		must(t, testlab.EnableTxtime(fd, unix.CLOCK_TAI))
	}
	return fd
}

// soon is enough lead for a busy machine.
const soon = 50 * time.Millisecond

// sendFrame sends a frame that is due soon and returns its transmit time.
func (c *captured) sendFrame(t *testing.T, f *framing) int64 {
	t.Helper()
	at, err := c.trySend(t, f)
	must(t, err)
	return at
}

func (c *captured) trySend(t *testing.T, f *framing) (int64, error) {
	t.Helper()
	timed := f.record == nil && !f.untimed
	fd := c.packetSender(t, timed)
	at := testlab.ClockNow(unix.CLOCK_TAI) + soon.Nanoseconds()
	var time []byte
	if timed {
		time = testlab.TxtimeMessage(at)
	}
	_, err := unix.SendmsgN(fd, f.frame(t, at), time, nil, 0)
	return at, err
}

// foreign is an unused hardware address.
var foreign = net.HardwareAddr{2, 0, 0, 0, 0, 9}

func TestPacketSocketFramesLeaveOnTimeUnchanged(t *testing.T) {
	timing(t)
	c := newCaptured(t, capture.Timed)
	for name, change := range map[string]func(*framing){
		"a frame":                   func(*framing) {},
		"the largest frame":         func(f *framing) { f.payloadBytes = 1422 },
		"a tagged frame":            func(f *framing) { f.tag = &layers.Dot1Q{Priority: 5, VLANIdentifier: 7} },
		"a record of the pod's own": func(f *framing) { f.record = &ownRecord{version: 1} },
		// It does not reach another network.
		"a tunnel of the pod's own": func(f *framing) {
			f.inside = append([]byte{8, 0, 0, 0, 0, 0, 7, 0}, markedPayload(0, 0, 64)...)
			f.port = topology.VXLANPort
		},
	} {
		t.Run(name, func(t *testing.T) {
			sent := c.validFrame(t)
			change(sent)
			fd := listenFrames(t, c.PodB, unix.ETH_P_ALL)
			tap := c.openTap(t, 100)
			at := c.sendFrame(t, sent)
			seen := awaitMarks(t, tap, 1)
			if len(seen) != 1 || seen[0].wireTAI < at {
				t.Errorf("on the wire are %+v, want one not before %d", seen, at)
			}
			for _, message := range seen {
				if vni := binary.BigEndian.Uint32(message.frame.Head[vniAt:]) >> 8; vni != topology.VNI {
					t.Errorf("it is in network %d", vni)
				}
			}
			sent.record = nil
			checkFrameReceived(t, fd, sent.frame(t, at))
		})
	}
}

// vniAt is the offset of the VNI after the tunnel's Ethernet, IPv4 and UDP headers.
const vniAt = 14 + 20 + 8 + 4

// checkFrameReceived checks that a frame is among the received ones.
func checkFrameReceived(t *testing.T, fd int, want []byte) {
	t.Helper()
	for {
		frame := receiveFrame(t, fd, time.Second)
		if frame == nil {
			t.Errorf("the frame did not arrive as it was sent")
			return
		}
		if tag := want[12:14]; binary.BigEndian.Uint16(tag) == unix.ETH_P_8021Q {
			// The kernel removes the tag before a packet socket receives the frame.
			frame = append(append(append([]byte{}, frame[:12]...), want[12:16]...), frame[12:]...)
		}
		if string(frame) == string(want) {
			return
		}
	}
}

// droppedFrames returns the frames dropped by the kernel's programs, relays and ktsnd.
func (c *captured) droppedFrames(t *testing.T) uint64 {
	t.Helper()
	return c.countFrames(t).refused + counters(t, c.client).Dropped()
}

// checkDropped checks that a frame is dropped and counted. It sends another one if the bridge forwarded frames, as it
// does when ktsnd or the relay had no CPU for 50 ms.
func (c *captured) checkDropped(t *testing.T, send func()) {
	t.Helper()
	testlab.Eventually(t, patience, 0, func() error {
		passed := c.countFrames(t).passed
		seen, counted := c.sendToDrop(t, send)
		if c.countFrames(t).passed == passed {
			if !counted || len(seen) > 0 {
				t.Errorf("it is counted: %v; on the wire are %+v", counted, seen)
			}
			return nil
		}
		return errors.New("the bridge continues to forward frames")
	})
}

// sendToDrop returns the frames on the wire and whether a drop is counted.
func (c *captured) sendToDrop(t *testing.T, send func()) (seen []markedPacket, counted bool) {
	t.Helper()
	before, passed := c.droppedFrames(t), c.countFrames(t).passed
	tap := c.openTap(t, 100)
	send()
	for deadline := time.Now().Add(patience); c.droppedFrames(t) == before && c.countFrames(t).passed == passed; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			break
		}
	}
	time.Sleep(2 * soon)
	return awaitMarks(t, tap, 0), c.droppedFrames(t) > before
}

// forgeries change a valid frame.
var forgeries = map[string]func(*framing){
	"another hardware address":             func(f *framing) { f.source = foreign },
	"another address":                      func(f *framing) { f.from = stranger },
	"the address of a pod of its node":     func(f *framing) { f.from = netip.MustParseAddr("10.42.1.4") },
	"the address that it sends to":         func(f *framing) { f.from = topology.PodAddressB },
	"another address in a tagged frame":    func(f *framing) { f.tag, f.from = &layers.Dot1Q{Priority: 5, VLANIdentifier: 7}, stranger },
	"a claim of another address by ARP":    func(f *framing) { f.claims, f.from = true, stranger },
	"a claim of another address by ND":     func(f *framing) { f.claims, f.from = true, netip.MustParseAddr("fd00:42:1::77") },
	"a record with a foreign frame":        func(f *framing) { f.record, f.source = &ownRecord{version: 1}, foreign },
	"a record with another source":         func(f *framing) { f.record = &ownRecord{version: 1, source: foreign} },
	"a record with another address inside": func(f *framing) { f.record, f.from = &ownRecord{version: 1}, stranger },
	"a priority that was not granted":      func(f *framing) { f.record = &ownRecord{version: 1, what: 7} },
	"a record without a time":              func(f *framing) { f.record, f.from = &ownRecord{version: 1, what: 3 << 4}, stranger },
	"a record with an unused bit":          func(f *framing) { f.record = &ownRecord{version: 1, what: 0x80} },
	"a record without a frame":             func(f *framing) { f.record = &ownRecord{version: 1, cut: recordBytes} },
	"half a record":                        func(f *framing) { f.record = &ownRecord{version: 1, cut: 20} },
}

func TestForgedFramesAreDropped(t *testing.T) {
	content(t)
	for _, mode := range []capture.Mode{capture.Timed, capture.All} {
		t.Run(mode.String(), func(t *testing.T) {
			c := newCaptured(t, mode)
			cases := maps.Clone(forgeries)
			if mode == capture.Timed {
				cases["an honest record without a time"] = func(f *framing) { f.record = &ownRecord{version: 1, what: 3 << 4} }
			}
			for name, change := range cases {
				t.Run(name, func(t *testing.T) {
					sent := c.validFrame(t)
					sent.untimed = mode == capture.All
					change(sent)
					c.checkDropped(t, func() { c.sendFrame(t, sent) })
				})
			}
			c.checkServed(t) // they did no harm
		})
	}
}

// stranger is an unused address in the subnet of pod a.
var stranger = netip.MustParseAddr("10.42.1.77")

// checkServed checks that a valid frame leaves on time.
func (c *captured) checkServed(t *testing.T) {
	t.Helper()
	tap := c.openTap(t, 100)
	at := c.sendFrame(t, c.validFrame(t))
	if seen := awaitMarks(t, tap, 1); len(seen) != 1 || seen[0].wireTAI < at {
		t.Errorf("an honest frame for %d: %+v", at, seen)
	}
}

// TestRecordOfUnknownVersionIsForwarded checks that a frame with a record of an unknown version is an ordinary frame.
func TestRecordOfUnknownVersionIsForwarded(t *testing.T) {
	content(t)
	c := newCaptured(t, capture.Timed)
	there := listenPacket(t, c.PodB)
	sent := c.validFrame(t)
	sent.record = &ownRecord{version: 2}
	c.sendFrame(t, sent)
	if frame := receiveFrame(t, there, patience); frame == nil {
		t.Error("it did not arrive")
	}
}

// TestSegmentsLeaveAtTransmitTime checks that each datagram into which the kernel divides a call (UDP_SEGMENT) has the
// call's time.
func TestSegmentsLeaveAtTransmitTime(t *testing.T) {
	timing(t)
	c := newCaptured(t, capture.Timed)
	listener := listen(t, c.PodB, "udp4", atPodB)
	fd := c.timedSocket(t)
	must(t, unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 200))
	tap := c.openTap(t, 100)
	at := testlab.ClockNow(unix.CLOCK_TAI) + soon.Nanoseconds()
	var payload []byte
	for i := range 5 {
		payload = append(payload, markedPayload(i, at, 200)...)
	}
	if _, err := unix.SendmsgN(fd, payload, testlab.TxtimeMessage(at), nil, 0); err != nil {
		t.Fatal(err)
	}
	checkInOrder(t, awaitMarks(t, tap, 5), 5, unix.CLOCK_TAI)
	checkMarksReceived(t, receivedTexts(t, listener), 5)
}

// timedSocket returns a socket that sends datagrams with times of CLOCK_TAI to pod b.
func (c *captured) timedSocket(t *testing.T) int {
	t.Helper()
	fd := ownSocket(t, c.PodA, unix.AF_INET, unix.SOCK_DGRAM)
	must(t, errors.Join(testlab.EnableTxtime(fd, unix.CLOCK_TAI),
		unix.Connect(fd, &unix.SockaddrInet4{Addr: topology.PodAddressB.As4(), Port: listenPort})))
	return fd
}

// TestFragmentsLeaveAtTransmitTime checks that each fragment of a datagram has the datagram's time.
func TestFragmentsLeaveAtTransmitTime(t *testing.T) {
	timing(t)
	c := newCaptured(t, capture.Timed)
	listener := listen(t, c.PodB, "udp4", atPodB)
	fd := c.timedSocket(t)
	before := counters(t, c.client)
	tap := c.openTap(t, 100)
	at := testlab.ClockNow(unix.CLOCK_TAI) + soon.Nanoseconds()
	payload := markedPayload(0, at, 4000)
	if _, err := unix.SendmsgN(fd, payload, testlab.TxtimeMessage(at), nil, 0); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 5000)
	_ = listener.SetReadDeadline(time.Now().Add(patience))
	length, err := listener.Read(buffer)
	if err != nil || string(buffer[:length]) != string(payload) {
		t.Errorf("%d bytes arrived, %v; want %d", length, err, len(payload))
	}
	if seen := awaitMarks(t, tap, 1); len(seen) != 1 || seen[0].wireTAI < at {
		t.Errorf("the first fragment, for %d: %+v", at, seen)
	}
	if after := counters(t, c.client); after.Taken-before.Taken != 3 {
		t.Errorf("ktsnd took %d frames, want 3", after.Taken-before.Taken)
	}
}

// TestTimedJumboFramesAreRejected checks that the kernel rejects frames larger than the tunnel's MTU from a pod that
// raised its interface's MTU.
func TestTimedJumboFramesAreRejected(t *testing.T) {
	content(t)
	c := newCaptured(t, capture.Timed)
	ip(t, c.PodA, "link", "set", topology.PodInterface, "mtu", "9000")
	sent := c.validFrame(t)
	sent.payloadBytes = 8000
	tap := c.openTap(t, 100)
	if _, err := c.trySend(t, sent); !errors.Is(err, unix.ENOBUFS) {
		t.Errorf("the call answered %v", err)
	}
	time.Sleep(2 * soon)
	if seen := awaitMarks(t, tap, 0); len(seen) > 0 {
		t.Errorf("on the wire are %+v", seen)
	}
	c.checkServed(t)
}
