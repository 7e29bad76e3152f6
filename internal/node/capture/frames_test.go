// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const (
	podMTU = 1450
	toPort = 5000
	// patience is for a busy machine.
	patience = 20 * time.Second
	tapName  = "relay"
	// deadlineMode is SOF_TXTIME_DEADLINE_MODE of linux/net_tstamp.h.
	deadlineMode = 1
)

var (
	podAddress, peerAddress        = net.HardwareAddr{0x0a, 0x58, 10, 42, 1, 2}, net.HardwareAddr{0x0a, 0x58, 10, 42, 1, 3}
	podIPv4, peerIPv4              = net.IPNet{IP: net.IP{10, 42, 1, 2}, Mask: net.CIDRMask(24, 32)}, net.IP{10, 42, 1, 3}
	podIPv6, peerIPv6              = net.IPNet{IP: net.ParseIP("fd42::2"), Mask: net.CIDRMask(64, 128)}, net.ParseIP("fd42::3")
	localExperiments        uint16 = 0x88b5
)

// wire is a pod and its node, with a tap in place of the relay.
type wire struct {
	pod, node *topology.Namespace
	tap       int
	state     *State
	// gated has the gated priorities of heartbeats, a bit for each.
	gated uint64
}

// newWire attaches both programs.
func newWire(t *testing.T, mode Mode) *wire { return newWireWithClasses(t, mode, ClassByRecord) }

func newWireWithClasses(t *testing.T, mode Mode, by ClassBy) *wire {
	t.Helper()
	w := &wire{pod: namespace(t), node: emptyNamespace(t)}
	do(t, w.pod, w.configurePod)
	do(t, w.node, func() (err error) {
		w.tap, err = openTap(tapName)
		return errors.Join(err, setUp(nodeEnd), setUp(tapName), AttachPort(nodeEnd, mode, by, AllGated))
	})
	t.Cleanup(func() { _ = unix.Close(w.tap) })
	do(t, w.pod, func() error { return AttachPod(podEnd, mode) })
	do(t, w.node, func() (err error) {
		if w.state, err = OpenState(nodeEnd); err != nil {
			return err
		}
		device, err := netlink.LinkByName(tapName)
		return errors.Join(err, w.state.SetRelay(device.Attrs().Index))
	})
	t.Cleanup(func() { _ = w.state.Close() })
	return w
}

// configurePod moves the far end to the node and adds the peer as a neighbour.
func (w *wire) configurePod() error {
	far, errFar := netlink.LinkByName(nodeEnd)
	node, errOpen := os.Open(w.node.Path())
	if err := errors.Join(errFar, errOpen); err != nil {
		return err
	}
	defer node.Close()
	link, err := netlink.LinkByName(podEnd)
	if err != nil {
		return err
	}
	err = errors.Join(netlink.LinkSetMTU(far, podMTU+RecordBytes), netlink.LinkSetNsFd(far, int(node.Fd())),
		netlink.LinkSetMTU(link, podMTU), netlink.LinkSetHardwareAddr(link, podAddress), netlink.LinkSetUp(link),
		netlink.AddrAdd(link, &netlink.Addr{IPNet: &podIPv4}),
		netlink.AddrAdd(link, &netlink.Addr{IPNet: &podIPv6, Flags: unix.IFA_F_NODAD}))
	for _, peer := range []net.IP{peerIPv4, peerIPv6} {
		err = errors.Join(err, netlink.NeighAdd(&netlink.Neigh{
			LinkIndex: link.Attrs().Index, IP: peer, HardwareAddr: peerAddress, State: netlink.NUD_PERMANENT,
		}))
	}
	return err
}

func setUp(name string) error {
	// Frames of IPv6 itself would mix with those of the tests.
	errQuiet := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0)
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return errors.Join(errQuiet, netlink.LinkSetUp(link))
}

func openTap(name string) (int, error) { return openTapAs(name, unix.IFF_TAP|unix.IFF_NO_PI) }

func openTapAs(name string, flags uint16) (int, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	request, err := unix.NewIfreq(name)
	if err != nil {
		return -1, err
	}
	request.SetUint16(flags)
	return fd, unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
}

// read returns the next frame at the relay's device.
func (w *wire) read(t *testing.T) []byte {
	t.Helper()
	ready := []unix.PollFd{{Fd: int32(w.tap), Events: unix.POLLIN}}
	buffer := make([]byte, 65536)
	for {
		count, err := unix.Poll(ready, int(patience.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || count == 0 {
			t.Fatalf("no frame came to the relay: %v", err)
		}
		length, err := unix.Read(w.tap, buffer)
		testlab.Must(t, err)
		return buffer[:length]
	}
}

// marker is the payload of the last frame of a test.
var marker = []byte("that was all")

// sent sends the marker and returns the frames that reach the relay before it.
func (w *wire) sent(t *testing.T) (frames [][]byte) {
	t.Helper()
	w.send(t, &message{payload: marker, timeNs: 1})
	for {
		frame := w.read(t)
		if bytes.HasSuffix(frame, marker) {
			return frames
		}
		frames = append(frames, frame)
	}
}

// message is a message that a program of the pod sends without libktsn.so.
type message struct {
	// domain is AF_INET unless it is given.
	domain     int
	clock      int32
	deadline   bool
	priority   int
	segment    int
	timeNs     uint64 // 0: none
	payload    []byte
	protocolBE uint16 // of a packet socket
}

func (w *wire) send(t *testing.T, m *message) {
	t.Helper()
	do(t, w.pod, m.send)
}

func (m *message) send() error {
	fd, to, err := m.socket()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if m.priority != 0 {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY, m.priority)
	}
	if m.segment != 0 {
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, m.segment))
	}
	if err != nil {
		return err
	}
	if m.timeNs == 0 {
		return unix.Sendmsg(fd, m.payload, nil, to, 0)
	}
	if err := m.askForTimes(fd); err != nil {
		return err
	}
	return unix.Sendmsg(fd, m.payload, m.control(), to, 0)
}

func (m *message) askForTimes(fd int) error {
	option := binary.NativeEndian.AppendUint32(nil, uint32(m.clock))
	flags := uint32(0)
	if m.deadline {
		flags = deadlineMode
	}
	option = binary.NativeEndian.AppendUint32(option, flags)
	if err := unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_TXTIME, string(option)); err != nil {
		return fmt.Errorf("ask for transmit times: %w", err)
	}
	return nil
}

// control returns the control message with the transmit time.
func (m *message) control() []byte {
	control := make([]byte, unix.CmsgSpace(8))
	binary.NativeEndian.PutUint64(control, uint64(unix.CmsgLen(8)))
	binary.NativeEndian.PutUint32(control[8:], unix.SOL_SOCKET)
	binary.NativeEndian.PutUint32(control[12:], unix.SCM_TXTIME)
	binary.NativeEndian.PutUint64(control[16:], m.timeNs)
	return control
}

// socket opens the socket and returns the destination.
func (m *message) socket() (int, unix.Sockaddr, error) {
	switch m.domain {
	case unix.AF_PACKET:
		link, err := netlink.LinkByName(podEnd)
		if err != nil {
			return -1, nil, err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		return fd, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index, Protocol: m.protocolBE, Halen: 6}, err
	case unix.AF_INET6:
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
		return fd, &unix.SockaddrInet6{Port: toPort, Addr: [16]byte(peerIPv6)}, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	return fd, &unix.SockaddrInet4{Port: toPort, Addr: [4]byte(peerIPv4)}, err
}

// ethernet returns a frame with the given EtherTypes or tags.
func ethernet(payload []byte, types ...uint16) []byte {
	frame := slices.Concat(peerAddress, podAddress)
	for _, etherType := range types {
		frame = binary.BigEndian.AppendUint16(frame, etherType)
	}
	return append(frame, payload...)
}

func bigEndian(value uint16) uint16 { return value<<8 | value>>8 }

// raw returns the message of a packet socket.
func raw(frame []byte, timeNs uint64) *message {
	return &message{domain: unix.AF_PACKET, payload: frame, timeNs: timeNs, clock: unix.CLOCK_MONOTONIC, protocolBE: bigEndian(binary.BigEndian.Uint16(frame[12:]))}
}

func TestCaptureRecord(t *testing.T) {
	const at = 1_700_000_000_123_456_789
	text := bytes.Repeat([]byte("timed "), 700)
	udp := func(length int) *message {
		return &message{payload: text[:length], timeNs: at, clock: unix.CLOCK_TAI}
	}
	for name, test := range map[string]struct {
		message *message
		// what is the record's byte of that name; lengths are the lengths of the frames without records.
		what    byte
		lengths []int
	}{
		"of CLOCK_TAI":                        {udp(64), 0x00, []int{14 + 28 + 64}},
		"of CLOCK_MONOTONIC, with a priority": {&message{payload: text[:64], timeNs: at, clock: unix.CLOCK_MONOTONIC, priority: 5}, 0x15, []int{106}},
		"of CLOCK_REALTIME, as a deadline":    {&message{payload: text[:64], timeNs: at, clock: unix.CLOCK_REALTIME, deadline: true}, 0x60, []int{106}},
		"over IPv6":                           {&message{domain: unix.AF_INET6, payload: text[:64], timeNs: at, clock: unix.CLOCK_TAI}, 0x00, []int{14 + 48 + 64}},
		"as long as the interface allows":     {udp(podMTU - 28), 0x00, []int{14 + podMTU}},
		"in fragments":                        {udp(3000), 0x00, []int{14 + 1444, 14 + 1444, 14 + 180}},
		"in segments":                         {&message{payload: text[:4000], timeNs: at, clock: unix.CLOCK_TAI, segment: 1500 - 300}, 0x00, []int{1242, 1242, 1242, 442}},
		"of a packet socket":                  {raw(ethernet(text[:60], 0x22f0), at), 0x10, []int{14 + 60}},
		"with a tag":                          {raw(ethernet(text[:60], unix.ETH_P_8021Q, 0xa005, 0x22f0), at), 0x10, []int{18 + 60}},
		"with two tags":                       {raw(ethernet(text[:60], unix.ETH_P_8021AD, 0xa005, unix.ETH_P_8021Q, 0x6007, 0x22f0), at), 0x10, []int{22 + 60}},
		"that has the record's EtherType":     {raw(ethernet(text[:60], localExperiments), at), 0x10, []int{14 + 60}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, Timed)
			w.send(t, test.message)
			var lengths []int
			var whole []byte
			for _, frame := range w.sent(t) {
				inner := withoutRecord(t, frame, test.what, at)
				lengths = append(lengths, len(inner))
				whole = append(whole, inner...)
				checkUDP(t, inner)
			}
			if !slices.Equal(lengths, test.lengths) {
				t.Errorf("the frames have %v bytes, want %v", lengths, test.lengths)
			}
			if end := test.message.payload[max(0, len(test.message.payload)-40):]; !bytes.HasSuffix(whole, end) {
				t.Errorf("the last frame ends with %q, want %q", whole[max(0, len(whole)-40):], end)
			}
		})
	}
}

// withoutRecord checks the record and returns the frame after it.
func withoutRecord(t *testing.T, frame []byte, what byte, timeNs uint64) []byte {
	t.Helper()
	want := binary.BigEndian.AppendUint16(slices.Concat(peerAddress, podAddress), localExperiments)
	want = binary.BigEndian.AppendUint64(append(want, 1, what), timeNs)
	if len(frame) < RecordBytes+14 || !bytes.Equal(frame[:RecordBytes], want) {
		t.Fatalf("the record is %x, want %x", frame[:min(len(frame), RecordBytes)], want)
	}
	if inner := frame[RecordBytes:]; !bytes.Equal(inner[:12], want[:12]) {
		t.Fatalf("the frame after the record begins with %x", inner[:14])
	}
	return frame[RecordBytes:]
}

// checkUDP checks the checksum of an unfragmented datagram.
func checkUDP(t *testing.T, frame []byte) {
	t.Helper()
	if binary.BigEndian.Uint16(frame[12:]) != unix.ETH_P_IP || binary.BigEndian.Uint16(frame[20:])&0x3fff != 0 {
		return
	}
	datagram := frame[34:]
	sum := uint32(unix.IPPROTO_UDP) + uint32(len(datagram))
	for pair := range slices.Chunk(slices.Concat(frame[26:34], datagram, make([]byte, len(datagram)%2)), 2) {
		sum += uint32(binary.BigEndian.Uint16(pair))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	if sum != 0xffff {
		t.Errorf("the checksum of a datagram of %d bytes is wrong", len(datagram))
	}
}

// tagBeside adds an offloaded tag to each packet of an interface, as a VLAN device does, before our program runs.
func tagBeside(interfaceName string, tag int32) error {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R2, int32(bigEndian(unix.ETH_P_8021Q))),
			asm.Mov.Imm(asm.R3, tag),
			asm.FnSkbVlanPush.Call(),
			asm.Mov.Imm(asm.R0, -1), // TC_ACT_UNSPEC
			asm.Return(),
		},
	})
	if err != nil {
		return err
	}
	defer program.Close()
	link, err := netlink.LinkByName(interfaceName)
	if err != nil {
		return err
	}
	filter := podHook.Place(link)
	// The filter that was added last runs first within a priority.
	filter.Handle, filter.Fd, filter.Name = filter.Handle+1, program.FD(), "tag"
	return netlink.FilterAdd(filter)
}

func TestCaptureOffloadedTag(t *testing.T) {
	const at = 1_700_000_000_000_000_001
	w := newWire(t, Timed)
	do(t, w.pod, func() error { return tagBeside(podEnd, 0xa005) })
	w.send(t, &message{payload: []byte("tagged"), timeNs: at, clock: unix.CLOCK_TAI})
	inner := withoutRecord(t, w.read(t), 0, at)
	if want := []byte{0x81, 0x00, 0xa0, 0x05, 0x08, 0x00, 0x45}; !bytes.Equal(inner[12:19], want) {
		t.Errorf("the addresses are followed by %x, want %x", inner[12:19], want)
	}
	if !bytes.HasSuffix(inner, []byte("tagged")) {
		t.Errorf("the frame is %x", inner)
	}
}

func TestCaptureRefusesTwoTags(t *testing.T) {
	for name, inner := range map[string]uint16{"of a customer": unix.ETH_P_8021Q, "of a provider": unix.ETH_P_8021AD} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, Timed)
			do(t, w.pod, func() error { return tagBeside(podEnd, 0xa005) })
			twice := raw(ethernet([]byte("tagged twice"), inner, 0x6007, 0x22f0), 1)
			do(t, w.pod, func() error {
				if err := twice.send(); !errors.Is(err, unix.ENOBUFS) {
					t.Errorf("sending a dropped frame returns %v", err)
				}
				return nil
			})
			if frames := w.sent(t); len(frames) > 0 {
				t.Errorf("the relay got %x", frames)
			}
			// The captured frame is the marker.
			if pod, port := w.counts(t); pod.Refused[ReasonTags] != 1 || pod.Captured != 1 || port.Timed != 1 {
				t.Errorf("the counters are %+v, %+v", pod, port)
			}
		})
	}
}

// sendBySocketPacket sends a frame by a socket of SOCK_PACKET, whose address is an interface's name.
func sendBySocketPacket(m *message) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_PACKET, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := m.askForTimes(fd); err != nil {
		return err
	}
	to := struct { // struct sockaddr_pkt
		family     uint16
		device     [14]byte
		protocolBE uint16
	}{family: unix.AF_PACKET, protocolBE: m.protocolBE}
	copy(to.device[:], podEnd)
	control := m.control()
	part := unix.Iovec{Base: &m.payload[0], Len: uint64(len(m.payload))}
	header := unix.Msghdr{
		Name: (*byte)(unsafe.Pointer(&to)), Namelen: uint32(unsafe.Sizeof(to)), Iov: &part, Iovlen: 1,
		Control: &control[0], Controllen: uint64(len(control)),
	}
	if _, _, failed := unix.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&header)), 0); failed != 0 {
		return failed
	}
	return nil
}

func TestCapturePacketSocketSOCK_PACKET(t *testing.T) {
	const at = 1_700_000_000_000_000_002
	w := newWire(t, Timed)
	do(t, w.pod, func() error { return sendBySocketPacket(raw(ethernet([]byte("oldest"), 0x22f0), at)) })
	frames := w.sent(t)
	if len(frames) != 1 {
		t.Fatalf("the relay got %x", frames)
	}
	if inner := withoutRecord(t, frames[0], 0x10, at); !bytes.HasSuffix(inner, []byte("oldest")) {
		t.Errorf("the frame is %x", inner)
	}
}

// counts reads the counters of both programs.
func (w *wire) counts(t *testing.T) (pod Count, port PortCount) {
	t.Helper()
	do(t, w.pod, func() (err error) { pod, err = Read(podEnd); return err })
	do(t, w.node, func() (err error) { port, err = ReadPort(nodeEnd); return err })
	return pod, port
}

func TestUntimedFrameIsNotCaptured(t *testing.T) {
	w := newWire(t, Timed)
	w.send(t, &message{payload: []byte("untimed")})
	if frames := w.sent(t); len(frames) > 0 {
		t.Errorf("the relay got %x", frames)
	}
	if pod, port := w.counts(t); pod.Captured != 1 || port.Timed != 1 || port.Untimed+port.Passed+port.Control != 0 {
		t.Errorf("besides the marker the counters are %+v, %+v", pod, port)
	}
}

func TestForgedRecord(t *testing.T) {
	const at = 77
	record := func(version byte) []byte {
		forged := ethernet(nil, localExperiments)
		return append(binary.BigEndian.AppendUint64(append(forged, version, 0x3f), at), ethernet([]byte("forged"), 0x22f0)...)
	}
	w := newWire(t, Timed)
	w.send(t, raw(record(1), 0))
	if frames := w.sent(t); len(frames) != 1 || !bytes.Equal(frames[0], record(1)) {
		t.Errorf("of a forged record the relay got %x", frames)
	}
	for name, other := range map[string][]byte{
		"of another version": record(2),
		"behind a tag":       ethernet(record(1)[12:], unix.ETH_P_8021Q, 0xa005),
		"cut short":          ethernet(nil, localExperiments),
	} {
		w.send(t, raw(other, 0))
		if frames := w.sent(t); len(frames) > 0 {
			t.Errorf("of a record %s the relay got %x", name, frames)
		}
	}
}

func TestTimedFramesWithoutRelay(t *testing.T) {
	w := newWire(t, Timed)
	timed := &message{payload: []byte("timed"), timeNs: 1, clock: unix.CLOCK_TAI}
	testlab.Must(t, w.state.SetRelay(0))
	w.send(t, timed)
	if _, port := w.counts(t); port.NoRelay != 1 || port.Timed != 0 {
		t.Errorf("without a relay the counters are %+v", port)
	}
	// The interface index of a device that is gone.
	testlab.Must(t, w.state.SetRelay(4711))
	w.send(t, timed)
	if _, port := w.counts(t); port.NoRelay != 2 || port.Timed != 0 {
		t.Errorf("with a missing device the counters are %+v", port)
	}
}

func TestCaptureRefusals(t *testing.T) {
	w := newWire(t, Timed)
	do(t, w.pod, func() error { return netdev.SetFeature(podEnd, "tx-udp-segmentation", true) })
	w.send(t, &message{payload: make([]byte, 3000), segment: 1000, timeNs: 1, clock: unix.CLOCK_TAI})
	if _, port := w.counts(t); port.Segments != 1 || port.Timed != 0 {
		t.Errorf("of undivided segments the counters are %+v", port)
	}
	do(t, w.pod, func() error { return AttachPod(podEnd, None) })
	w.send(t, &message{payload: []byte("timed"), timeNs: 1, clock: unix.CLOCK_TAI})
	pod, _ := w.counts(t)
	if pod.Mode != None || pod.Captured != 0 || pod.Refused[ReasonNotCaptured] != 1 || pod.RefusedSum() != 1 {
		t.Errorf("with mode None the counters are %+v", pod)
	}
	if len(pod.Programs) != 1 || pod.Programs[0].Refused != 1 || int(pod.Programs[0].PID) != os.Getpid() {
		t.Errorf("the programs are %+v, want this one, %d", pod.Programs, os.Getpid())
	}
}

func TestCaptureJumboFrames(t *testing.T) {
	const mtu = 20_000
	w := newWire(t, Timed)
	for name, where := range map[string]*topology.Namespace{podEnd: w.pod, nodeEnd: w.node} {
		do(t, where, func() error {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			return netlink.LinkSetMTU(link, mtu+RecordBytes)
		})
	}
	for length, captured := range map[int]bool{8972: true, 15_900: true, 17_000: false} {
		w.send(t, &message{payload: make([]byte, length), timeNs: 1, clock: unix.CLOCK_TAI})
		if frames := w.sent(t); (len(frames) == 1) != captured {
			t.Errorf("of a datagram of %d bytes the relay got %d frames", length, len(frames))
		}
	}
	if pod, _ := w.counts(t); pod.Refused[ReasonNoRoom] != 1 {
		t.Errorf("the counters are %+v", pod)
	}
}

// beat writes a heartbeat of the given age.
func (w *wire) beat(t *testing.T, ago time.Duration) {
	t.Helper()
	var clock unix.Timespec
	testlab.Must(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &clock))
	testlab.Must(t, w.state.heartbeat.Put(uint32(0), &heartbeat{uint64(clock.Nano() - int64(ago)), w.gated}))
}

func TestCaptureAllWithRelay(t *testing.T) {
	w := newWire(t, All)
	plain := &message{payload: []byte("untimed")}
	for _, ago := range []time.Duration{time.Hour, -time.Hour} {
		_, before := w.counts(t)
		w.beat(t, ago)
		w.send(t, plain)
		if _, silent := w.counts(t); silent.Passed == before.Passed || silent.Untimed != 0 {
			t.Errorf("with a heartbeat %v ago the counters are %+v", ago, silent)
		}
	}
	// A busy machine can take longer than HeartbeatLimit.
	for deadline := time.Now().Add(patience); ; {
		// In the future, because the clock of the relay's processor may be ahead.
		w.beat(t, -HeartbeatLimit/2)
		w.send(t, plain)
		if _, now := w.counts(t); now.Untimed > 0 || time.Now().After(deadline) {
			break
		}
	}
	frames := w.sent(t)
	if len(frames) == 0 || !slices.ContainsFunc(frames, func(frame []byte) bool {
		return bytes.Equal(frame[:12], slices.Concat(peerAddress, podAddress)) && bytes.HasSuffix(frame, []byte("untimed"))
	}) {
		t.Errorf("the relay got %x", frames)
	}
}

// Gated frames are queued for a relay that does not answer, and are dropped without a relay.
func TestGatedFramesDoNotBypass(t *testing.T) {
	w := newWire(t, All)
	w.gated = 1
	w.beat(t, time.Hour)
	w.send(t, &message{payload: []byte("gated")})
	if frames := w.sent(t); !slices.ContainsFunc(frames, func(frame []byte) bool { return bytes.HasSuffix(frame, []byte("gated")) }) {
		t.Errorf("a relay that does not answer got %x", frames)
	}
	testlab.Must(t, w.state.SetRelay(0))
	w.send(t, &message{payload: []byte("gated")})
	if _, port := w.counts(t); port.Gated == 0 || port.Passed != 0 {
		t.Errorf("without a relay the counters are %+v", port)
	}
	w.gated = 1 << 1 // another priority
	w.beat(t, time.Hour)
	_, before := w.counts(t)
	w.send(t, &message{payload: []byte("free")})
	if _, port := w.counts(t); port.Gated != before.Gated || port.Passed == 0 {
		t.Errorf("of ungated frames the counters are %+v, before %+v", port, before)
	}
}

// While the schedule is unknown all frames are gated.
func TestGatesUnknown(t *testing.T) {
	w := newWire(t, All)
	testlab.Must(t, w.state.SetRelay(0))
	w.send(t, &message{payload: []byte("unknown")})
	if _, port := w.counts(t); port.Gated == 0 || port.Passed != 0 || port.GatedPriorities != AllGated {
		t.Errorf("it counted %+v", port)
	}
	testlab.Must(t, w.state.SetGated(1<<1))
	_, before := w.counts(t)
	w.send(t, &message{payload: []byte("free")})
	if _, port := w.counts(t); port.Gated != before.Gated || port.Passed == 0 || port.GatedPriorities != 1<<1 || port.HeartbeatAge >= 0 {
		t.Errorf("with known gates the counters are %+v, before %+v", port, before)
	}
}

// Untimed frames leave room for timed frames in the queue of a relay that does not answer.
func TestUntimedQueueLimit(t *testing.T) {
	const limit = 256 // MAX_QUEUED
	w := newWire(t, All)
	w.gated = 1
	flood := func() {
		for range limit + 50 {
			w.send(t, &message{payload: []byte("waits")})
		}
	}
	w.beat(t, time.Hour)
	flood()
	_, first := w.counts(t)
	if first.Untimed != limit || first.Gated < 50 {
		t.Errorf("it counted %+v", first)
	}
	// A relay that answers has read them. A busy machine can take longer than HeartbeatLimit.
	for deadline := time.Now().Add(patience); ; {
		w.beat(t, -HeartbeatLimit/2)
		w.send(t, &message{payload: []byte("answered")})
		if _, now := w.counts(t); now.Untimed > first.Untimed || time.Now().After(deadline) {
			break
		}
	}
	_, answered := w.counts(t)
	w.beat(t, time.Hour)
	flood()
	if _, again := w.counts(t); again.Untimed-answered.Untimed < limit/2 {
		t.Errorf("after an answer the counters are %+v, before %+v", again, answered)
	}
}

func TestControlFramesReachBridge(t *testing.T) {
	to := func(address string, types uint16, payload []byte) []byte {
		frame := ethernet(payload, types)
		parsed, _ := net.ParseMAC(address)
		copy(frame, parsed)
		return frame
	}
	igmp := make([]byte, 32)
	igmp[0], igmp[9] = 0x46, unix.IPPROTO_IGMP
	mld := make([]byte, 76)
	mld[0], mld[6], mld[40], mld[48] = 0x60, unix.IPPROTO_HOPOPTS, unix.IPPROTO_ICMPV6, 143
	udp := make([]byte, 32)
	udp[0], udp[9] = 0x45, unix.IPPROTO_UDP
	w := newWire(t, All)
	w.beat(t, time.Hour)
	for name, test := range map[string]struct {
		frame   []byte
		control bool
	}{
		"IGMP report":          {to("01:00:5e:00:00:16", unix.ETH_P_IP, igmp), true},
		"MLD report":           {to("33:33:00:00:00:16", unix.ETH_P_IPV6, mld), true},
		"frame for bridges":    {to("01:80:c2:00:00:0e", 0x88cc, igmp), true},
		"multicast datagram":   {to("01:00:5e:01:02:03", unix.ETH_P_IP, udp), false},
		"unicast IGMP":         {to("0a:58:0a:2a:01:03", unix.ETH_P_IP, igmp), false},
		"frame beyond bridges": {to("01:80:c2:00:00:10", 0x88cc, igmp), false},
	} {
		t.Run(name, func(t *testing.T) {
			got := !test.control
			// A report of the kernel or of the previous case may be counted meanwhile, but not each time.
			for range 5 {
				_, before := w.counts(t)
				w.send(t, raw(test.frame, 0))
				_, after := w.counts(t)
				if got = after.Control > before.Control; got == test.control {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			if got != test.control {
				t.Errorf("the bridge gets it: %v, want %v", got, test.control)
			}
		})
	}
}

// report returns an IGMP report to all routers with a length of bytes.
func report(bytes int) []byte {
	frame := ethernet(make([]byte, bytes-14), unix.ETH_P_IP)
	copy(frame, net.HardwareAddr{0x01, 0x00, 0x5e, 0, 0, 0x16})
	frame[14], frame[14+9] = 0x46, unix.IPPROTO_IGMP
	return frame
}

func TestControlFrameRateLimit(t *testing.T) {
	const flood, secondBytes = 3000, 102_400
	for name, test := range map[string]struct{ bytes, counted int }{"short": {46, 512}, "long": {1400, 1400}} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, All)
			began := time.Now()
			do(t, w.pod, func() error {
				frame := raw(report(test.bytes), 0)
				fd, to, err := frame.socket()
				for range flood {
					err = errors.Join(err, unix.Sendmsg(fd, frame.payload, nil, to, 0))
				}
				return errors.Join(err, unix.Close(fd))
			})
			// A second begins with the first report after the previous second, which may be one of the pod's kernel.
			seconds := int(time.Since(began)/time.Second) + 2
			_, port := w.counts(t)
			if most := uint64(seconds * secondBytes / test.counted); port.Control == 0 || port.Control > most {
				t.Errorf("of %d reports in %d seconds %d passed, want at most %d", flood, seconds, port.Control, most)
			}
		})
	}
}
