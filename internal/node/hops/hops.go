// SPDX-License-Identifier: Apache-2.0

// Package hops finds by whom a packet of a pod is forwarded: it sends echo requests from the pod's network namespace that may be
// forwarded ever more often, and hears who says that one was too often (RFC 1812), or that it has arrived.
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

// Hop is who answered a packet that could be forwarded so often.
type Hop struct {
	// TTL is its time to live, or hop limit.
	TTL int `json:"ttl"`
	// Address is the answer's source; the zero value: nobody answered.
	Address netip.Addr `json:"address,omitzero"`
	// After is how long the answer took.
	After time.Duration `json:"afterNs"`
	// Arrived tells that it came from the destination.
	Arrived bool `json:"arrived"`
}

const (
	// Most is the largest TTL that is tried: a client, eight pods in the middle, and an endpoint.
	Most = 10
	// patience is how long an answer is waited for; tries how often one is asked for.
	patience = 500 * time.Millisecond
	tries    = 3
	// silent is after how many hops in a row that nobody answers for it ends.
	silent = 3
)

// kinds are the types of ICMP of a family.
type kinds struct {
	family, protocol, level, option int
	request, reply, exceeded        byte
	// headerBytes is the length of the family's header without options; withHeader tells that raw sockets read it.
	headerBytes int
	withHeader  bool
}

var (
	kinds4 = &kinds{unix.AF_INET, unix.IPPROTO_ICMP, unix.IPPROTO_IP, unix.IP_TTL, 8, 0, 11, 20, true}
	kinds6 = &kinds{unix.AF_INET6, unix.IPPROTO_ICMPV6, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, 128, 129, 3, 40, false}
)

// Find asks from the network namespace of that path, by one of its interfaces.
func Find(ctx context.Context, netns, interfaceName string, to netip.Addr) (found []Hop, err error) {
	of := kinds4
	if to.Is6() {
		of = kinds6
	}
	a := &asking{kinds: of, to: to, number: uint16(os.Getpid())}
	err = ns.WithNetNSPath(netns, func(ns.NetNS) (err error) {
		a.socket, err = unix.Socket(of.family, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, of.protocol)
		if err != nil {
			return err
		}
		return unix.SetsockoptString(a.socket, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, interfaceName)
	})
	if err != nil {
		return nil, fmt.Errorf("ask for the way from %s: %w", interfaceName, err)
	}
	defer func() { _ = unix.Close(a.socket) }()
	quiet := 0
	for ttl := 1; ttl <= Most && quiet < silent; ttl++ {
		hop, err := a.ask(ctx, ttl)
		if err != nil {
			return found, fmt.Errorf("ask for the way to %s: %w", to, err)
		}
		found = append(found, hop)
		if hop.Arrived {
			break
		}
		quiet++
		if hop.Address.IsValid() {
			quiet = 0
		}
	}
	return found, nil
}

// asking is a socket by which is asked.
type asking struct {
	*kinds
	socket int
	to     netip.Addr
	number uint16
	count  uint16
}

func (a *asking) ask(ctx context.Context, ttl int) (Hop, error) {
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
			if from, arrived, ok := a.hear(); ok {
				hop.Address, hop.Arrived, hop.After = from, arrived, time.Since(began)
				return hop, nil
			}
		}
	}
	return hop, nil
}

// send asks once; for IPv6 the kernel fills in the checksum.
func (a *asking) send() error {
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

// hear reads what has come until one is an answer to what was asked last.
func (a *asking) hear() (from netip.Addr, arrived, ok bool) {
	buffer := make([]byte, 512)
	for {
		length, source, err := unix.Recvfrom(a.socket, buffer, unix.MSG_DONTWAIT)
		if err != nil {
			return from, false, false
		}
		message := buffer[:length]
		if a.withHeader {
			message = behind(message)
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

// behind is what is behind a header of IPv4.
func behind(packet []byte) []byte {
	if len(packet) == 0 || len(packet) < int(packet[0]&15)*4 {
		return nil
	}
	return packet[int(packet[0]&15)*4:]
}

// quoted is the message of a packet that is quoted.
func (a *asking) quoted(packet []byte) []byte {
	if a.withHeader {
		return behind(packet)
	}
	if len(packet) < a.headerBytes {
		return nil
	}
	return packet[a.headerBytes:]
}

func (a *asking) isOurs(message []byte) bool {
	return len(message) >= 8 && binary.BigEndian.Uint16(message[4:]) == a.number && binary.BigEndian.Uint16(message[6:]) == a.count
}
