// SPDX-License-Identifier: Apache-2.0

//go:build vm

package netns_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// virtioHeaderBytes is the size of the header before each frame in a tap of QEMU.
const virtioHeaderBytes = 10

// guestAttacker is a sender of arbitrary frames: a machine at its tap, or a pod at its interface.
type guestAttacker struct {
	mac  net.HardwareAddr
	from netip.Addr
	send func(*testing.T, []byte)
}

// machineEnemy returns a sender in the place of QEMU: no driver has checked its frames.
func (c *captured) machineEnemy(t *testing.T, m *virtualMachine) *guestAttacker {
	t.Helper()
	tap := c.openMachineTap(t, m)
	return &guestAttacker{mac: parseMAC(t, m.Address), from: neighborAddress, send: func(t *testing.T, frame []byte) {
		t.Helper()
		writeTap(tap, make([]byte, virtioHeaderBytes), frame)
	}}
}

// writeTap writes a frame. The kernel rejects some, which equals a drop.
func writeTap(tap *os.File, header, frame []byte) { _, _ = tap.Write(slices.Concat(header, frame)) }

// openMachineTap opens a queue of a machine's tap like QEMU, the first call the first queue.
func (c *captured) openMachineTap(t *testing.T, m *virtualMachine) *os.File {
	t.Helper()
	fd, flags := -1, uint16(unix.IFF_TAP|unix.IFF_NO_PI|unix.IFF_VNET_HDR)
	if m.Queues > 1 {
		flags |= unix.IFF_MULTI_QUEUE
	}
	must(t, c.NodeA.Do(func() (err error) {
		if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
			return err
		}
		request, err := unix.NewIfreq(m.Tap)
		if err != nil {
			return err
		}
		request.SetUint16(flags)
		return unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}))
	return ownFile(t, fd, m.Tap)
}

// podEnemy returns pod a as a sender.
func (c *captured) podEnemy(t *testing.T) *guestAttacker {
	t.Helper()
	fd := c.packetSender(t, false)
	return &guestAttacker{mac: interfaceMAC(t, c.PodA), from: topology.PodAddressA, send: func(t *testing.T, frame []byte) {
		t.Helper()
		if _, err := unix.Write(fd, frame); err != nil {
			t.Fatal(err)
		}
	}}
}

// forgedFrameMaker returns a frame that pretends to come from a victim.
type forgedFrameMaker func(t *testing.T, e *guestAttacker, victim net.HardwareAddr, payload []byte) []byte

// datagramFrom returns a frame of pod a or the machine to pod b, forged by change.
func datagramFrom(change func(*framing)) forgedFrameMaker {
	return func(t *testing.T, e *guestAttacker, victim net.HardwareAddr, payload []byte) []byte {
		f := &framing{source: e.mac, destination: victim, from: e.from, to: topology.PodAddressB, port: listenPort, inside: payload}
		change(f)
		return f.frame(t, testlab.ClockNow(unix.CLOCK_TAI)+soon.Nanoseconds())
	}
}

// claimSource returns an ARP or ND answer that claims an address.
func claimSource(family int, source netip.Addr) forgedFrameMaker {
	return func(t *testing.T, e *guestAttacker, victim net.HardwareAddr, payload []byte) []byte {
		ether := &layers.Ethernet{SrcMAC: e.mac, DstMAC: victim}
		var all []gopacket.SerializableLayer
		if family == unix.AF_INET {
			ether.EthernetType = layers.EthernetTypeARP
			all = []gopacket.SerializableLayer{ether, &layers.ARP{
				AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: layers.ARPReply,
				SourceHwAddress: e.mac, SourceProtAddress: source.AsSlice(), DstHwAddress: victim, DstProtAddress: topology.PodAddressB.AsSlice(),
			}}
		} else {
			ether.EthernetType = layers.EthernetTypeIPv6
			ip := &layers.IPv6{Version: 6, HopLimit: 255, NextHeader: layers.IPProtocolICMPv6, SrcIP: source.AsSlice(), DstIP: podAddress6B.AsSlice()}
			icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(layers.ICMPv6TypeNeighborAdvertisement, 0)}
			must(t, icmp.SetNetworkLayerForChecksum(ip))
			all = []gopacket.SerializableLayer{ether, ip, icmp, &layers.ICMPv6NeighborAdvertisement{Flags: 0x60, TargetAddress: source.AsSlice(),
				Options: layers.ICMPv6Options{{Type: layers.ICMPv6OptTargetAddress, Data: e.mac}}}}
		}
		buffer := gopacket.NewSerializeBuffer()
		must(t, gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, append(all, gopacket.Payload(payload))...))
		return buffer.Bytes()
	}
}

// lies are forged frames by name. ktsnd checks those with a record in every mode, the others when everything is
// captured.
var lies = map[string]struct {
	recorded bool
	make     forgedFrameMaker
}{
	"another hardware address":             {false, datagramFrom(func(f *framing) { f.source = foreign })},
	"another address":                      {false, datagramFrom(func(f *framing) { f.from = stranger })},
	"the address of a pod of its node":     {false, datagramFrom(func(f *framing) { f.from = netip.MustParseAddr("10.42.1.4") })},
	"the address that it sends to":         {false, datagramFrom(func(f *framing) { f.from = topology.PodAddressB })},
	"another address in a VLAN frame":      {false, datagramFrom(func(f *framing) { f.tag, f.from = &layers.Dot1Q{Priority: 5, VLANIdentifier: 7}, stranger })},
	"a claim of another address by ARP":    {false, claimSource(unix.AF_INET, stranger)},
	"a claim of another address by ND":     {false, claimSource(unix.AF_INET6, netip.MustParseAddr("fd00:42:1::77"))},
	"a record with a foreign frame":        {true, datagramFrom(func(f *framing) { f.record, f.source = &ownRecord{version: 1}, foreign })},
	"a record with another source":         {true, datagramFrom(func(f *framing) { f.record = &ownRecord{version: 1, source: foreign} })},
	"a record with another address inside": {true, datagramFrom(func(f *framing) { f.record, f.from = &ownRecord{version: 1}, stranger })},
	"a priority that was not granted":      {true, datagramFrom(func(f *framing) { f.record = &ownRecord{version: 1, what: 7} })},
	"a record without a time":              {true, datagramFrom(func(f *framing) { f.record, f.from = &ownRecord{version: 1, what: 3 << 4}, stranger })},
	"a record with a bit that is unused":   {true, datagramFrom(func(f *framing) { f.record = &ownRecord{version: 1, what: 0x80} })},
	"a record without a frame":             {true, datagramFrom(func(f *framing) { f.record = &ownRecord{version: 1, cut: recordBytes} })},
	"half a record":                        {true, datagramFrom(func(f *framing) { f.record = &ownRecord{version: 1, cut: 20} })},
}

// forgedArrives sends a forged frame and reports whether pod b gets it. It sends another one if the bridge forwarded
// the frame because ktsnd had no CPU for 50 ms.
func (c *captured) forgedArrives(t *testing.T, e *guestAttacker, pod string, make forgedFrameMaker) bool {
	t.Helper()
	return testlab.EventuallyValue(t, patience, 0, func() (bool, error) {
		passed := c.port(t, pod).Passed
		payload := fmt.Appendf(nil, "lie %d", testlab.ClockNow(unix.CLOCK_TAI))
		there := listenFrames(t, c.PodB, unix.ETH_P_ALL)
		e.send(t, make(t, e, interfaceMAC(t, c.PodB), payload))
		came := payloadArrives(t, there, payload)
		if c.port(t, pod).Passed == passed || c.port(t, pod).Mode != capture.All {
			return came, nil
		}
		return false, errors.New("the bridge continues to forward frames")
	})
}

func payloadArrives(t *testing.T, there int, payload []byte) bool {
	t.Helper()
	for until := time.Now().Add(3 * soon); time.Now().Before(until); {
		if frame := receiveFrame(t, there, soon); bytes.Contains(frame, payload) {
			return true
		}
	}
	return false
}

// TestGuestsSpoofNoMoreThanPods checks that a machine can spoof no more than a pod: nothing with a record, and nothing
// at all if everything is captured.
func TestGuestsSpoofNoMoreThanPods(t *testing.T) {
	for _, mode := range []capture.Mode{capture.Timed, capture.All} {
		t.Run(mode.String(), func(t *testing.T) {
			c := newCaptured(t, mode)
			m := c.attachMachine(t)
			c.awaitRelay(t, machineIdentity)
			machine, pod := c.machineEnemy(t, m), c.podEnemy(t)
			for name, lie := range lies {
				t.Run(name, func(t *testing.T) {
					before := c.droppedOfAll(t)
					got := c.forgedArrives(t, machine, machineIdentity, lie.make)
					counted := c.droppedOfAll(t) - before
					if (lie.recorded || mode == capture.All) && (got || counted == 0) {
						t.Errorf("it arrives: %v; %d are counted as dropped", got, counted)
					}
					if as := c.forgedArrives(t, pod, identity, lie.make); got != as {
						t.Errorf("of the machine it arrives: %v, of a pod: %v", got, as)
					}
				})
			}
			c.checkMachineServed(t, machine)
			c.checkServed(t)
		})
	}
}

// droppedOfAll returns the dropped frames of all pods and machines of the node.
func (c *captured) droppedOfAll(t *testing.T) uint64 {
	t.Helper()
	return relayDrops(t, c.relays) + counters(t, c.client).Dropped()
}

// checkMachineServed checks that a frame of the machine with a record leaves on time.
func (c *captured) checkMachineServed(t *testing.T, e *guestAttacker) {
	t.Helper()
	tap := c.openTap(t, 100)
	at := testlab.ClockNow(unix.CLOCK_TAI) + soon.Nanoseconds()
	honest := &framing{source: e.mac, destination: interfaceMAC(t, c.PodB), from: e.from, to: topology.PodAddressB, port: listenPort, payloadBytes: 64,
		record: &ownRecord{version: 1}}
	e.send(t, honest.frame(t, at))
	if seen := awaitMarks(t, tap, 1); len(seen) != 1 || seen[0].wireTAI < at {
		t.Errorf("an honest frame of the machine for %d: %+v", at, seen)
	}
}

// TestGuestsForgedRecordsAreDropped sends arbitrary records and prefixes: ktsnd and the relay continue, and no frame
// that was taken for a record leaves early.
func TestGuestsForgedRecordsAreDropped(t *testing.T) {
	c := newCaptured(t, capture.Timed)
	m := c.attachMachine(t)
	c.awaitRelay(t, machineIdentity)
	e := c.machineEnemy(t, m)
	frame := func(at int64, record *ownRecord) []byte {
		f := &framing{source: e.mac, destination: interfaceMAC(t, c.PodB), from: e.from, to: topology.PodAddressB, port: listenPort, payloadBytes: 64, record: record}
		return f.frame(t, at)
	}
	relays, daemon := c.relayPIDs(t), c.daemon.PID()
	tap := c.openTap(t, 10_000)
	for what := range 256 {
		e.send(t, frame(testlab.ClockNow(unix.CLOCK_TAI)+soon.Nanoseconds(), &ownRecord{version: 1, what: uint8(what)}))
	}
	before := counters(t, c.client).DropHorizon
	for _, at := range []int64{math.MaxInt64, testlab.ClockNow(unix.CLOCK_TAI) + int64(365*24*time.Hour)} {
		e.send(t, frame(at, &ownRecord{version: 1}))
	}
	for _, at := range []int64{math.MinInt64, -1, 0, 1} { // long ago
		e.send(t, frame(at, &ownRecord{version: 1}))
	}
	whole := frame(0, &ownRecord{version: 1})
	for cut := range whole {
		e.send(t, whole[:cut])
	}
	inner := frame(testlab.ClockNow(unix.CLOCK_TAI), &ownRecord{version: 1})
	e.send(t, withRecord(inner, testlab.ClockNow(unix.CLOCK_TAI)+soon.Nanoseconds()))
	e.send(t, withVLANTag(inner, 5))
	e.send(t, withVLANTag(withVLANTag(inner, 5), 3))
	time.Sleep(2 * soon)
	awaitCounters(t, c.client, "what is too far ahead is dropped", func(counted control.Counters) bool { return counted.DropHorizon >= before+2 })
	seen := awaitMarks(t, tap, 0)
	for _, message := range seen {
		if early := message.txtime - message.wireTAI; early > 0 && early < int64(time.Hour) {
			t.Errorf("a frame left %v early: %x", time.Duration(early), message.frame.Head)
		}
	}
	if got := c.relayPIDs(t); !slices.Equal(got, relays) || c.daemon.PID() != daemon {
		t.Errorf("the relays were %v and are %v; they say: %s", relays, got, c.relays.Stderr())
	}
	c.checkMachineServed(t, e)
	c.checkServed(t)
}

// TestGuestsFalseOffloadsAreDropped sends false checksum and segmentation offsets in a driver's header.
func TestGuestsFalseOffloadsAreDropped(t *testing.T) {
	for _, mode := range []capture.Mode{capture.Timed, capture.All} {
		t.Run(mode.String(), func(t *testing.T) {
			c := newCaptured(t, mode)
			m := c.attachMachine(t)
			c.awaitRelay(t, machineIdentity)
			tap := c.openMachineTap(t, m)
			e := &guestAttacker{mac: parseMAC(t, m.Address), from: neighborAddress, send: func(_ *testing.T, frame []byte) {
				writeTap(tap, make([]byte, virtioHeaderBytes), frame)
			}}
			f := &framing{source: e.mac, destination: interfaceMAC(t, c.PodB), from: e.from, to: topology.PodAddressB, port: listenPort, payloadBytes: 1400}
			relays := c.relayPIDs(t)
			for _, record := range []*ownRecord{nil, {version: 1}} {
				f.record = record
				for flags := range uint8(4) {
					for _, kind := range []uint8{0, 1, 3, 4, 5, 0x80, 0x81, 0xff} {
						for _, lengths := range [][4]uint16{{}, {14, 100, 34, 6}, {0xffff, 1, 0, 0}, {54, 8, 0xffff, 0xffff}, {34, 0, 34, 6}, {62, 1400, 1480, 16}} {
							header := []byte{flags, kind}
							for _, length := range lengths {
								header = binary.NativeEndian.AppendUint16(header, length)
							}
							writeTap(tap, header, f.frame(t, testlab.ClockNow(unix.CLOCK_TAI)))
						}
					}
				}
			}
			if got := c.relayPIDs(t); !slices.Equal(got, relays) {
				t.Errorf("the relays were %v and are %v; they say: %s", relays, got, c.relays.Stderr())
			}
			c.awaitQuiet(t)
			c.checkMachineServed(t, e)
			c.checkServed(t)
		})
	}
}

// TestGuestsRecordsWithoutCaptureAreIgnored checks that without capture the bridge forwards a record as part of an
// ordinary frame.
func TestGuestsRecordsWithoutCaptureAreIgnored(t *testing.T) {
	c := newCaptured(t, capture.Timed)
	side := c.wiring.A.Another("", nil, neighborAddress)
	side.Capture(capture.None)
	m := c.attachMachineAs(t, machineName, side)
	e := c.machineEnemy(t, m)
	before := counters(t, c.client)
	there := listenFrames(t, c.PodB, etherType)
	record := datagramFrom(func(f *framing) { f.record = &ownRecord{version: 1, what: 7} })(t, e, interfaceMAC(t, c.PodB), []byte("nobody's"))
	e.send(t, record)
	if got := receiveFrame(t, there, patience); !bytes.Equal(got, record) {
		t.Errorf("%x arrives, and %x was sent", got, record)
	}
	if after := counters(t, c.client); after.Taken != before.Taken {
		t.Errorf("ktsnd took %d frames", after.Taken-before.Taken)
	}
	c.checkServed(t)
}
