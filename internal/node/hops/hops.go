// SPDX-License-Identifier: Apache-2.0

// Package hops traces the route of a pod's packets. It sends ICMP echo requests with increasing TTL from the pod's network namespace
// and receives the time-exceeded messages (RFC 1812) of the hops and the reply of the destination.
package hops

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"
)

// Hop is the reply to requests with one TTL.
type Hop struct {
	// TTL is the time to live, or hop limit, of the request.
	TTL int `json:"ttl"`
	// Address is the reply's source; the zero value: no reply.
	Address netip.Addr `json:"address,omitzero"`
	// After is the round-trip time.
	After time.Duration `json:"afterNs"`
	// Arrived: the destination replied.
	Arrived bool `json:"arrived"`
}

const (
	// Most is the largest TTL: a chain has a client, at most eight pods in the middle, and an endpoint.
	Most = 10
	// patience limits the wait for a reply; tries is the number of requests with each TTL.
	patience = 500 * time.Millisecond
	tries    = 3
	// silent is the number of hops in a row without a reply after which Find ends.
	silent = 3
)

// kinds has the ICMP types and socket options of a family.
type kinds struct {
	family, protocol, level, option int
	request, reply, exceeded        byte
	// headerBytes is the length of the IP header without options. withHeader: raw sockets receive it.
	headerBytes int
	withHeader  bool
}

var (
	kinds4 = &kinds{unix.AF_INET, unix.IPPROTO_ICMP, unix.IPPROTO_IP, unix.IP_TTL, 8, 0, 11, 20, true}
	kinds6 = &kinds{unix.AF_INET6, unix.IPPROTO_ICMPV6, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, 128, 129, 3, 40, false}
)

// Find traces the route to an address from an interface in the network namespace at the path netns.
func Find(ctx context.Context, netns, interfaceName string, to netip.Addr) (hops []Hop, err error) {
	family := kinds4
	if to.Is6() {
		family = kinds6
	}
	t := &tracer{kinds: family, to: to, number: uint16(os.Getpid())}
	err = ns.WithNetNSPath(netns, func(ns.NetNS) (err error) {
		t.socket, err = unix.Socket(family.family, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, family.protocol)
		if err != nil {
			return err
		}
		return unix.SetsockoptString(t.socket, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, interfaceName)
	})
	if err != nil {
		return nil, fmt.Errorf("trace the route from %s: %w", interfaceName, err)
	}
	defer func() { _ = unix.Close(t.socket) }()
	quiet := 0
	for ttl := 1; ttl <= Most && quiet < silent; ttl++ {
		hop, err := t.probe(ctx, ttl)
		if err != nil {
			return hops, fmt.Errorf("trace the route to %s: %w", to, err)
		}
		hops = append(hops, hop)
		if hop.Arrived {
			break
		}
		quiet++
		if hop.Address.IsValid() {
			quiet = 0
		}
	}
	return hops, nil
}

// tracer is the state of a trace.
type tracer struct {
	*kinds
	socket int
	to     netip.Addr
	number uint16
	count  uint16
}

func (a *tracer) probe(ctx context.Context, ttl int) (Hop, error) {
	hop := Hop{TTL: ttl}
	if err := unix.SetsockoptInt(a.socket, a.level, a.option, ttl); err != nil {
		return hop, err
	}
	for range tries {
		if err := ctx.Err(); err != nil {
			return hop, err
		}
		a.count++
		began := time.Now()
		if err := a.send(); err != nil {
			return hop, err
		}
		for left := patience; left > 0; left = patience - time.Since(began) {
			ready := []unix.PollFd{{Fd: int32(a.socket), Events: unix.POLLIN}}
			if _, err := unix.Poll(ready, int(left.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
				return hop, err
			}
			if from, arrived, ok := a.receive(); ok {
				hop.Address, hop.Arrived, hop.After = from, arrived, time.Since(began)
				return hop, nil
			}
		}
	}
	return hop, nil
}

// send sends a request. With IPv6 the kernel fills in the checksum.
func (a *tracer) send() error {
	message := make([]byte, 16)
	message[0] = a.request
	binary.BigEndian.PutUint16(message[4:], a.number)
	binary.BigEndian.PutUint16(message[6:], a.count)
	if a.to.Is4() {
		var sum uint32
		for i := 0; i < len(message); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(message[i:]))
		}
		binary.BigEndian.PutUint16(message[2:], ^uint16(sum>>16+sum&0xffff))
		return unix.Sendto(a.socket, message, 0, &unix.SockaddrInet4{Addr: a.to.As4()})
	}
	return unix.Sendto(a.socket, message, 0, &unix.SockaddrInet6{Addr: a.to.As16()})
}

// receive reads received messages until one is a reply to the last request.
func (a *tracer) receive() (from netip.Addr, arrived, ok bool) {
	buffer := make([]byte, 512)
	for {
		length, source, err := unix.Recvfrom(a.socket, buffer, unix.MSG_DONTWAIT)
		if err != nil {
			return from, false, false
		}
		message := buffer[:length]
		if a.withHeader {
			message = withoutHeader(message)
		}
		switch {
		case len(message) < 8:
			continue
		case message[0] == a.reply && a.isOurs(message):
			arrived = true
		case message[0] == a.exceeded && a.isOurs(a.quoted(message[8:])):
		default:
			continue
		}
		switch source := source.(type) {
		case *unix.SockaddrInet4:
			from = netip.AddrFrom4(source.Addr)
		case *unix.SockaddrInet6:
			from = netip.AddrFrom16(source.Addr)
		}
		return from, arrived, true
	}
}

// withoutHeader returns the payload of an IPv4 packet, nil if it is truncated.
func withoutHeader(packet []byte) []byte {
	if len(packet) == 0 || len(packet) < int(packet[0]&15)*4 {
		return nil
	}
	return packet[int(packet[0]&15)*4:]
}

// quoted returns the ICMP message of the packet that an ICMP error quotes.
func (a *tracer) quoted(packet []byte) []byte {
	if a.withHeader {
		return withoutHeader(packet)
	}
	if len(packet) < a.headerBytes {
		return nil
	}
	return packet[a.headerBytes:]
}

func (a *tracer) isOurs(message []byte) bool {
	return len(message) >= 8 && binary.BigEndian.Uint16(message[4:]) == a.number && binary.BigEndian.Uint16(message[6:]) == a.count
}
