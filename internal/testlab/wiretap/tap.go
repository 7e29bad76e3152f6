// SPDX-License-Identifier: Apache-2.0

package wiretap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// snapBytes of each frame are kept: headers, VXLAN, inner headers and the message's header take 14+20+8+8 + 14+20+8
	// + 28 = 120 bytes. No more, because copying delays the frame.
	snapBytes = 128
	// frameBytes is a slot of the ring: TPACKET2_HDRLEN, the padding before the frame, and the snap.
	frameBytes = 256
	// blockBytes is the kernel's unit of allocation.
	blockBytes = 1 << 18
	// MaxFrames limits a ring to 256 MiB.
	MaxFrames = 1 << 20
)

// Packet is a frame that arrived from the link.
type Packet struct {
	// TAI is the kernel's receive stamp, in nanoseconds of CLOCK_TAI.
	TAI int64
	// AtTap reports that the stamp was taken when the frame reached the tap, after the receiver's backlog: a frame that
	// carries a transmit time (SO_TXTIME on a link without etf) gets no stamp from the link.
	AtTap bool
	// VLAN is the tag of the frame on the link; nil without a tag.
	VLAN *VLANTag
	// WireBytes is the frame's length on the link; Head is its beginning.
	WireBytes int
	Head      []byte
}

// VLANTag is the content of an 802.1Q tag.
type VLANTag struct {
	ID  uint16
	PCP uint8
}

// Capture has the frames that a tap recorded. A capture with dropped frames must not be used.
type Capture struct {
	Packets []Packet
	Drops   uint32
}

// Tap is an open tap. It is not safe for concurrent use.
type Tap struct {
	fd   int
	ring []byte
	// taiOffset is CLOCK_TAI - CLOCK_REALTIME when the tap was opened.
	taiOffset time.Duration
}

// Open starts a tap for up to frames frames on an interface of the calling thread's network namespace. The tap can be
// used from any thread.
func Open(interfaceName string, frames int) (*Tap, error) {
	return open(interfaceName, frames, udpFilter())
}

// OpenWithout starts a tap that leaves out datagrams to a UDP port within VXLAN, which then need neither room nor time.
func OpenWithout(interfaceName string, frames int, port uint16) (*Tap, error) {
	return open(interfaceName, frames, udpFilterWithout(port))
}

func open(interfaceName string, frames int, filter []unix.SockFilter) (_ *Tap, err error) {
	if frames < 1 || frames > MaxFrames {
		return nil, fmt.Errorf("tap %s: a ring of %d frames; give 1 to %d", interfaceName, frames, MaxFrames)
	}
	link, err := net.InterfaceByName(interfaceName)
	if err != nil {
		return nil, fmt.Errorf("tap %s: %w", interfaceName, err)
	}
	offset, err := taiOffset()
	if err != nil {
		return nil, err
	}
	// Protocol 0: nothing arrives before filter and ring exist and bind sets a protocol.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open AF_PACKET socket: %w", err)
	}
	tap := &Tap{fd: fd, taiOffset: offset}
	success := false
	defer func() {
		if !success {
			err = errors.Join(err, tap.close())
		}
	}()
	if err := tap.configure(frames, filter); err != nil {
		return nil, fmt.Errorf("tap %s: %w", interfaceName, err)
	}
	address := &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: link.Index}
	if err := unix.Bind(fd, address); err != nil {
		return nil, fmt.Errorf("tap %s: bind: %w", interfaceName, err)
	}
	if err := awaitStamping(); err != nil {
		return nil, fmt.Errorf("tap %s: %w", interfaceName, err)
	}
	success = true
	return tap, nil
}

func (t *Tap) configure(frames int, filter []unix.SockFilter) error {
	for _, option := range []struct {
		name                 string
		level, option, value int
	}{
		{"use TPACKET_V2", unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2},
		{"ignore outgoing frames", unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1},
		// Otherwise the ring gets the time at which the frame reaches this socket, after the receiver's backlog.
		{"stamp on reception", unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1},
	} {
		if err := unix.SetsockoptInt(t.fd, option.level, option.option, option.value); err != nil {
			return fmt.Errorf("%s: %w", option.name, err)
		}
	}
	program := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.SetsockoptSockFprog(t.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, program); err != nil {
		return fmt.Errorf("attach filter: %w", err)
	}
	const framesPerBlock = blockBytes / frameBytes
	blocks := (frames + framesPerBlock - 1) / framesPerBlock
	request := &unix.TpacketReq{
		Block_size: blockBytes,
		Block_nr:   uint32(blocks),
		Frame_size: frameBytes,
		Frame_nr:   uint32(blocks * framesPerBlock),
	}
	if err := unix.SetsockoptTpacketReq(t.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, request); err != nil {
		return fmt.Errorf("make ring: %w", err)
	}
	ring, err := unix.Mmap(t.fd, 0, blocks*blockBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map ring: %w", err)
	}
	t.ring = ring
	return nil
}

// udpFilter accepts UDP over IPv4 over Ethernet and nothing else.
func udpFilter() []unix.SockFilter {
	const (
		etherTypeAt = 12
		protocolAt  = 14 + 9
	)
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: etherTypeAt},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.ETH_P_IP, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: protocolAt},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.IPPROTO_UDP, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: snapBytes},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
}

// udpFilterWithout leaves out frames whose innermost destination port is port. Shorter frames have none, and inner tags
// are not skipped.
func udpFilterWithout(port uint16) []unix.SockFilter {
	const (
		etherTypeAt     = 12
		protocolAt      = 14 + 9
		outerPortAt     = 14 + 20 + 2
		inner           = 14 + 20 + 8 + 8
		innerTypeAt     = inner + etherTypeAt
		innerProtocolAt = inner + protocolAt
		innerPortAt     = inner + outerPortAt
	)
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: etherTypeAt},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.ETH_P_IP, Jf: 11},
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: protocolAt},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.IPPROTO_UDP, Jf: 9},
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: outerPortAt},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: vxlanPort, Jf: 6},
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: innerTypeAt},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.ETH_P_8021Q, Jt: 4},
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: innerProtocolAt},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.IPPROTO_UDP, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: innerPortAt},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(port), Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: snapBytes},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
}

// Stop ends the tap and returns its frames in order of arrival.
func (t *Tap) Stop() (*Capture, error) {
	capture, err := t.read()
	if err := errors.Join(err, t.close()); err != nil {
		return nil, err
	}
	return capture, nil
}

func (t *Tap) read() (*Capture, error) {
	statistics, err := unix.GetsockoptTpacketStats(t.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return nil, fmt.Errorf("read the tap's drops: %w", err)
	}
	offset, err := taiOffset()
	if err != nil {
		return nil, err
	}
	if offset != t.taiOffset {
		return nil, fmt.Errorf("the offset of CLOCK_TAI changed from %v to %v during the run; run it again",
			t.taiOffset, offset)
	}
	packets, err := t.Seen()
	if err != nil {
		return nil, err
	}
	return &Capture{Packets: packets, Drops: statistics.Drops}, nil
}

// Seen returns the frames so far in order of arrival, to wait until a frame was on the link. Stop reports drops.
func (t *Tap) Seen() ([]Packet, error) {
	var packets []Packet
	for at := 0; at < len(t.ring); at += frameBytes {
		packet, ok, err := t.packet(t.ring[at : at+frameBytes])
		if err != nil || !ok {
			return packets, err
		}
		packets = append(packets, packet)
	}
	return packets, nil
}

// packet copies a slot of the ring. It returns false if the kernel has not filled the slot.
func (t *Tap) packet(slot []byte) (Packet, bool, error) {
	header := (*unix.Tpacket2Hdr)(unsafe.Pointer(&slot[0]))
	// The kernel writes the status last, possibly just now.
	if atomic.LoadUint32(&header.Status)&unix.TP_STATUS_USER == 0 {
		return Packet{}, false, nil
	}
	end := int(header.Mac) + int(header.Snaplen)
	if end > len(slot) {
		return Packet{}, false, fmt.Errorf("a frame ends at byte %d of a slot of %d", end, len(slot))
	}
	realtime := int64(header.Sec)*int64(time.Second) + int64(header.Nsec)
	return Packet{
		TAI:       realtime + int64(t.taiOffset),
		AtTap:     header.Status&unix.TP_STATUS_TS_SOFTWARE == 0,
		VLAN:      vlanTag(header),
		WireBytes: int(header.Len),
		Head:      append([]byte(nil), slot[header.Mac:end]...),
	}, true, nil
}

// vlanTag returns the tag, which the kernel removed from the frame before the tap saw it.
func vlanTag(header *unix.Tpacket2Hdr) *VLANTag {
	if header.Status&unix.TP_STATUS_VLAN_VALID == 0 {
		return nil
	}
	return &VLANTag{ID: header.Vlan_tci & 0xfff, PCP: uint8(header.Vlan_tci >> 13)}
}

func (t *Tap) close() error {
	var err error
	if t.ring != nil {
		err = unix.Munmap(t.ring)
		t.ring = nil
	}
	return errors.Join(err, unix.Close(t.fd))
}

// taiOffset returns how far CLOCK_TAI is ahead of CLOCK_REALTIME.
func taiOffset() (time.Duration, error) {
	var state unix.Timex // modes 0: only read
	if _, err := unix.Adjtimex(&state); err != nil {
		return 0, fmt.Errorf("read the offset of CLOCK_TAI: %w", err)
	}
	return time.Duration(state.Tai) * time.Second, nil
}

// networkOrder returns the number whose bytes in memory are those of value in network order.
func networkOrder(value uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, value))
}
