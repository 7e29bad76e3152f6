// SPDX-License-Identifier: Apache-2.0

package linkprobe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"
)

// echo is a socket in a pod's network namespace that probes the other end of a link.
type echo struct {
	socket int
	peer   netip.Addr
	buffer [headerIPv6 + headerEcho + 64]byte
}

const (
	headerIPv4 = 20
	headerIPv6 = 40
	headerEcho = 8
	// smallBytes is the size of packets that only test for an answer.
	smallBytes = headerIPv6 + headerEcho + 16
)

// Types of ICMP and ICMPv6.
const (
	echoRequest4, echoReply4 = 8, 0
	echoRequest6, echoReply6 = 128, 129
)

// icmpFilter is the option of raw sockets of ICMP (linux/icmp.h).
const icmpFilter = 1

// openEcho opens the socket, which sends from one address through one interface, and receives echo replies only.
func openEcho(netns, interfaceName string, ownAddress, peer netip.Addr) (*echo, error) {
	e := &echo{socket: -1, peer: peer}
	err := ns.WithNetNSPath(netns, func(ns.NetNS) (err error) {
		family, protocol := unix.AF_INET, unix.IPPROTO_ICMP
		if peer.Is6() {
			family, protocol = unix.AF_INET6, unix.IPPROTO_ICMPV6
		}
		e.socket, err = unix.Socket(family, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, protocol)
		if err != nil {
			return err
		}
		return e.prepare(interfaceName, ownAddress)
	})
	if err != nil {
		e.close()
		return nil, fmt.Errorf("open a probe of %s: %w", peer, err)
	}
	return e, nil
}

func (e *echo) prepare(interfaceName string, ownAddress netip.Addr) error {
	err := unix.SetsockoptString(e.socket, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, interfaceName)
	if e.peer.Is4() {
		return errors.Join(err,
			// Set DF and ignore the kernel's path MTU.
			unix.SetsockoptInt(e.socket, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE),
			unix.SetsockoptInt(e.socket, unix.SOL_RAW, icmpFilter, ^(1<<echoReply4)),
			unix.Bind(e.socket, &unix.SockaddrInet4{Addr: ownAddress.As4()}),
			unix.Connect(e.socket, &unix.SockaddrInet4{Addr: e.peer.As4()}))
	}
	filter := &unix.ICMPv6Filter{}
	for i := range filter.Data {
		filter.Data[i] = ^uint32(0)
	}
	filter.Data[echoReply6>>5] &^= 1 << (echoReply6 & 31)
	return errors.Join(err,
		unix.SetsockoptInt(e.socket, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE),
		unix.SetsockoptInt(e.socket, unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1),
		unix.SetsockoptICMPv6Filter(e.socket, unix.IPPROTO_ICMPV6, unix.ICMPV6_FILTER, filter),
		unix.Bind(e.socket, &unix.SockaddrInet6{Addr: ownAddress.As16()}),
		unix.Connect(e.socket, &unix.SockaddrInet6{Addr: e.peer.As16()}))
}

func (e *echo) close() {
	if e.socket >= 0 {
		_ = unix.Close(e.socket)
		e.socket = -1
	}
}

// send sends a request of size bytes, including the IP header, with a sequence number.
func (e *echo) send(size int, sequence uint16, scratch []byte) error {
	message := scratch[:size-e.headerBytes()]
	clear(message[:headerEcho])
	message[0] = echoRequest4
	binary.BigEndian.PutUint16(message[4:], uint16(size))
	binary.BigEndian.PutUint16(message[6:], sequence)
	if e.peer.Is4() { // the kernel does this for IPv6
		binary.BigEndian.PutUint16(message[2:], checksum(message))
	} else {
		message[0] = echoRequest6
	}
	_, err := unix.Write(e.socket, message)
	return err
}

func (e *echo) headerBytes() int {
	if e.peer.Is4() {
		return headerIPv4
	}
	return headerIPv6
}

// maxReceive limits the packets of one call, so that a pod that floods its peer does not delay other probes.
const maxReceive = 64

// receive calls handle with size and sequence number of each echo reply, of at most maxReceive packets.
func (e *echo) receive(handle func(size int, sequence uint16)) error {
	for range maxReceive {
		length, err := unix.Read(e.socket, e.buffer[:])
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		}
		message := e.buffer[:length]
		if e.peer.Is4() { // with the IP header
			if len(message) < headerIPv4 || len(message) < int(message[0]&15)*4+headerEcho {
				continue
			}
			message = message[int(message[0]&15)*4:]
		}
		if len(message) < headerEcho || message[0] != echoReply4 && message[0] != echoReply6 {
			continue
		}
		handle(int(binary.BigEndian.Uint16(message[4:])), binary.BigEndian.Uint16(message[6:]))
	}
	return nil
}

// checksum returns the internet checksum (RFC 1071).
func checksum(message []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(message); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(message[i:]))
	}
	if len(message)%2 == 1 {
		sum += uint32(message[len(message)-1]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
