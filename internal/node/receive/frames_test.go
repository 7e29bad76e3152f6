// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
)

// frame is a datagram in a tunnel, as a peer sends it; cases change what they are about.
type frame struct {
	uplink         [6]byte // destination address of the outer frame
	peer, node     netip.Addr
	port           uint16
	outerOptions   bool
	outerCheck     uint16
	outerFragment  uint16
	flags          uint32
	vni, reserved  uint32
	podMAC         [6]byte
	sourceMAC      [6]byte
	etherType      uint16
	source, pod    netip.Addr
	sourcePort     uint16
	podPort        uint16
	protocol       byte
	fragment       uint16
	options        []byte
	udpLess        int // bytes that UDP's length omits
	ipLess         int // bytes that IP's length omits
	noCheck        bool
	wrongCheck     bool
	wrongHeader    bool
	payload        []byte
	trailer        []byte // after the datagram
	cut            int    // bytes missing at the end
	outerLess      int
	outerTag       bool
	dontFragment   bool
	outerWrongHead bool
	outerMark      byte // ECN
}

// Offsets in a frame without options.
const (
	atOuterIP  = 14
	atOuterUDP = atOuterIP + 20
	atVXLAN    = atOuterUDP + 8
	atInner    = atVXLAN + 8
	atInnerIP  = atInner + 14
)

func (f *frame) bytes() []byte {
	inside := slices.Concat(f.inner(), f.trailer)
	tunnel := binary.BigEndian.AppendUint32(nil, f.flags)
	tunnel = binary.BigEndian.AppendUint32(tunnel, f.vni<<8|f.reserved)
	datagram := udpHeader(49152, f.port, 8+len(tunnel)+len(inside)-f.outerLess, f.outerCheck)
	var options []byte
	if f.outerOptions {
		options = []byte{1, 1, 1, 0}
	}
	body := slices.Concat(datagram, tunnel, inside)
	header := ipv4Header(f.peer, f.node, 17, len(body)-f.outerLess, options, f.outerFragment)
	header[1] |= f.outerMark
	binary.BigEndian.PutUint16(header[10:], 0)
	binary.BigEndian.PutUint16(header[10:], ^ones(header[:20+len(options)]))
	if f.outerWrongHead {
		header[10] ^= 1
	}
	front := slices.Concat(f.uplink[:], []byte{2, 0, 0, 0, 0, 9})
	if f.outerTag {
		front = append(front, 0x81, 0, 0, 5)
	}
	all := slices.Concat(front, []byte{8, 0}, header, body)
	return all[:len(all)-f.cut]
}

func (f *frame) inner() []byte {
	check := uint16(0)
	bytes := 8 + len(f.payload)
	if !f.noCheck {
		check = udpCheck(f.source, f.pod, slices.Concat(udpHeader(f.sourcePort, f.podPort, bytes-f.udpLess, 0), f.payload))
	}
	if f.wrongCheck {
		check ^= 0x0100
	}
	body := slices.Concat(udpHeader(f.sourcePort, f.podPort, bytes-f.udpLess, check), f.payload)
	ethernet := binary.BigEndian.AppendUint16(slices.Concat(f.podMAC[:], f.sourceMAC[:]), f.etherType)
	if f.source.Is6() {
		return slices.Concat(ethernet, f.ipv6Header(len(body)), body)
	}
	fragment := f.fragment
	if f.dontFragment {
		fragment |= 0x4000
	}
	header := ipv4Header(f.source, f.pod, f.protocol, len(body)-f.ipLess, f.options, fragment)
	if f.wrongHeader {
		header[10] ^= 1
	}
	return slices.Concat(ethernet, header, body)
}

func (f *frame) ipv6Header(bytes int) []byte {
	header := []byte{0x6b, 0x80, 0, 0}
	header = binary.BigEndian.AppendUint16(header, uint16(bytes-f.ipLess))
	return slices.Concat(header, []byte{f.protocol, 63}, f.source.AsSlice(), f.pod.AsSlice())
}

func ipv4Header(source, destination netip.Addr, protocol byte, bytes int, options []byte, fragment uint16) []byte {
	header := []byte{byte(4<<4 | (20+len(options))/4), 0xb8}
	header = binary.BigEndian.AppendUint16(header, uint16(20+len(options)+bytes))
	header = append(header, 0, 1)
	header = binary.BigEndian.AppendUint16(header, fragment)
	header = slices.Concat(header, []byte{63, protocol, 0, 0}, source.AsSlice(), destination.AsSlice(), options)
	binary.BigEndian.PutUint16(header[10:], ^ones(header))
	return header
}

func udpHeader(source, destination uint16, bytes int, check uint16) []byte {
	header := binary.BigEndian.AppendUint16(nil, source)
	header = binary.BigEndian.AppendUint16(header, destination)
	header = binary.BigEndian.AppendUint16(header, uint16(bytes))
	return binary.BigEndian.AppendUint16(header, check)
}

// udpCheck is the checksum of RFC 768, never zero.
func udpCheck(source, destination netip.Addr, datagram []byte) uint16 {
	check := ^ones(slices.Concat(pseudo(source.AsSlice(), destination.AsSlice(), len(datagram)), datagram))
	if check == 0 {
		return 0xffff
	}
	return check
}

func pseudo(source, destination []byte, bytes int) []byte {
	return slices.Concat(source, destination, binary.BigEndian.AppendUint32(nil, uint32(bytes)), []byte{0, 0, 0, 17})
}

// ones is the sum of RFC 1071.
func ones(data []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(data); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(data[i:]))
	}
	if len(data)%2 == 1 {
		sum += uint32(data[len(data)-1]) << 8
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

// takes reports whether the program must take the frame: it is a datagram for the world's socket. It is written from the
// standards, independently of the program.
func (w *world) takes(frame []byte) bool {
	if len(frame) < atInnerIP || !bytes.Equal(frame[:6], w.uplinkMAC[:]) || !isPlainIPv4(frame[atOuterIP:]) || frame[12] != 8 || frame[13] != 0 {
		return false
	}
	outer := frame[atOuterIP:]
	total, udp, vxlan, inner := int(be16(outer[2:])), frame[atOuterUDP:], frame[atVXLAN:], frame[atInner:]
	if total > len(outer) || be16(udp[4:]) != uint16(total-20) || be16(udp[2:]) != testTunnelPort ||
		!bytes.Equal(outer[16:20], testNode.AsSlice()) || !bytes.Equal(vxlan[:8], []byte{8, 0, 0, 0, 0, 0, testVNI, 0}) {
		return false
	}
	if !bytes.Equal(inner[:6], w.podMAC[:]) || inner[6]&1 != 0 || bytes.Equal(inner[6:12], make([]byte, 6)) {
		return false
	}
	if total < atInnerIP-atOuterIP || outer[1]&1 != 0 {
		return false
	}
	return w.takesInside(be16(inner[12:]), frame[atInnerIP:atOuterIP+total], outer[12:16], be16(udp[6:]) != 0)
}

func (w *world) takesInside(etherType uint16, ip, peer []byte, needsCheck bool) bool {
	var source, destination, udp []byte
	switch {
	case etherType == 0x0800 && isPlainIPv4(ip) && int(be16(ip[2:])) <= len(ip):
		source, destination, udp = ip[12:16], ip[16:20], ip[20:be16(ip[2:])]
	case etherType == 0x86dd && len(ip) >= 40 && ip[0]>>4 == 6 && ip[6] == 17 && int(be16(ip[4:]))+40 <= len(ip):
		source, destination, udp = ip[8:24], ip[24:40], ip[40:40+int(be16(ip[4:]))]
	default:
		return false
	}
	if len(udp) < 8 || int(be16(udp[4:])) != len(udp) || be16(udp[2:]) != testPodPort || len(udp) > 9216-48-4 {
		return false
	}
	check := be16(udp[6:])
	if check == 0 && (needsCheck || etherType == 0x86dd) {
		return false
	}
	if check != 0 && ones(slices.Concat(pseudo(source, destination, len(udp)), udp)) != 0xffff {
		return false
	}
	from, _ := netip.AddrFromSlice(source)
	to, _ := netip.AddrFromSlice(destination)
	if (to != testPod4 && to != testPod6) || !bytes.Equal(peer, testPeer.AsSlice()) {
		return false
	}
	return slices.ContainsFunc(testBehind, func(behind netip.Prefix) bool { return behind.Contains(from) }) && from != to
}

// isPlainIPv4 reports whether the packet is an unfragmented UDP packet without options.
func isPlainIPv4(packet []byte) bool {
	return len(packet) >= 20 && packet[0] == 0x45 && packet[9] == 17 && be16(packet[6:])&0x3fff == 0 && ones(packet[:20]) == 0xffff &&
		be16(packet[2:]) >= 28
}

// repaired corrects the checksums of a frame, so that the program reads the fields that they cover.
func repaired(frame []byte) []byte {
	frame = slices.Clone(frame)
	repairIPv4(frame, atOuterIP)
	if len(frame) < atInnerIP {
		return frame
	}
	repairIPv4(frame, atInnerIP)
	at, source, destination := atInnerIP+20, atInnerIP+12, atInnerIP+16
	if be16(frame[atInner+12:]) == 0x86dd {
		at, source, destination = atInnerIP+40, atInnerIP+8, atInnerIP+24
	}
	if len(frame) < at+8 || int(be16(frame[at+4:])) < 8 || len(frame) < at+int(be16(frame[at+4:])) {
		return frame
	}
	udp := frame[at : at+int(be16(frame[at+4:]))]
	from, _ := netip.AddrFromSlice(frame[source:destination])
	to, _ := netip.AddrFromSlice(frame[destination : destination+destination-source])
	binary.BigEndian.PutUint16(udp[6:], 0)
	binary.BigEndian.PutUint16(udp[6:], udpCheck(from, to, udp))
	return frame
}

func repairIPv4(frame []byte, at int) {
	if len(frame) < at+20 {
		return
	}
	binary.BigEndian.PutUint16(frame[at+10:], 0)
	binary.BigEndian.PutUint16(frame[at+10:], ^ones(frame[at:at+20]))
}

func be16(data []byte) uint16 { return binary.BigEndian.Uint16(data) }
