// SPDX-License-Identifier: Apache-2.0

package pathmtu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// port is a UDP port without a listener: the other end answers with an ICMP error, which shows that the packet
	// arrived (as in tracepath).
	port = 44444
	// headerBytes is the size of the IPv4 and UDP headers.
	headerBytes = 20 + 8
	// minBytes is the packet size that every host accepts (RFC 791).
	minBytes = 576
	// tries is the number of packets of each size, because Linux limits ICMP errors to one per second; answerTimeout is
	// how long to wait after each.
	tries         = 3
	answerTimeout = time.Second
	// maxReports limits how often routers may report a smaller MTU.
	maxReports = 16
)

// ErrSilent means that there are no answers: the other end is down, or a firewall drops its ICMP errors (port
// unreachable).
var ErrSilent = errors.New("no answer to any packet")

// answer is the result of a packet.
type answer int

const (
	silent answer = iota
	arrived
	tooLarge
)

// Find returns the size in bytes of the largest IPv4 packet, at most largest, that reaches a host unfragmented. It uses
// the MTU that routers report (RFC 1191), or else searches (RFC 8899), which takes seconds if packets are dropped
// silently.
func Find(ctx context.Context, to netip.Addr, largest int) (int, error) {
	return find(ctx, to, largest, answerTimeout)
}

// find is Find with a timeout for each packet.
func find(ctx context.Context, to netip.Addr, largest int, timeout time.Duration) (int, error) {
	p, err := dial(to, timeout)
	if err != nil {
		return 0, fmt.Errorf("find the path MTU to %s: %w", to, err)
	}
	defer func() { _ = unix.Close(p.socket) }()
	size := largest
	for range maxReports {
		result, mtu, err := p.send(ctx, size)
		switch {
		case err != nil:
			return 0, fmt.Errorf("find the path MTU to %s: %w", to, err)
		case result == arrived:
			return size, nil
		case result == silent:
			return p.search(ctx, size)
		case mtu < minBytes || mtu >= size: // not a valid MTU
			return p.search(ctx, size)
		}
		size = mtu
	}
	return p.search(ctx, size)
}

// probe is a socket connected to a host.
type probe struct {
	socket int
	to     netip.Addr
	// timeout is how long to wait for an answer.
	timeout time.Duration
}

func dial(to netip.Addr, timeout time.Duration) (*probe, error) {
	if !to.Is4() {
		return nil, errors.New("not an IPv4 address")
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	p := &probe{socket, to, timeout}
	err = errors.Join(
		// Set DF and ignore the kernel's path MTU.
		unix.SetsockoptInt(socket, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE),
		unix.SetsockoptInt(socket, unix.IPPROTO_IP, unix.IP_RECVERR, 1),
		unix.Connect(socket, &unix.SockaddrInet4{Port: port, Addr: to.As4()}))
	if err != nil {
		_ = unix.Close(socket)
		return nil, err
	}
	return p, nil
}

// search finds the size by bisection.
func (p *probe) search(ctx context.Context, fails int) (int, error) {
	fits := minBytes
	result, _, err := p.send(ctx, fits)
	switch {
	case err != nil:
		return 0, fmt.Errorf("find the path MTU to %s: %w", p.to, err)
	case result != arrived:
		return 0, fmt.Errorf("find the path MTU to %s: %w", p.to, ErrSilent)
	}
	first := fails
	for fits+1 < fails {
		half := (fits + fails) / 2
		result, _, err := p.send(ctx, half)
		switch {
		case err != nil:
			return 0, fmt.Errorf("find the path MTU to %s: %w", p.to, err)
		case result == arrived:
			fits = half
		default:
			fails = half
		}
	}
	if fits+1 == first { // the first packet may have been lost
		if result, _, err := p.send(ctx, first); err == nil && result == arrived {
			fits = first
		}
	}
	return fits, nil
}

// send sends packets of a size until there is an answer. mtu is the MTU that a router, or this host, reports.
func (p *probe) send(ctx context.Context, size int) (result answer, mtu int, err error) {
	for range tries {
		if err := ctx.Err(); err != nil {
			return silent, 0, err
		}
		_, err := unix.Write(p.socket, make([]byte, size-headerBytes))
		if err != nil && !slices.ContainsFunc(transientErrnos, func(errno unix.Errno) bool { return errors.Is(err, errno) }) {
			return silent, 0, err
		}
		if result, mtu, err := p.wait(); result != silent || err != nil {
			return result, mtu, err
		}
	}
	return silent, 0, nil
}

// transientErrnos are errors of a call that refer to an earlier packet, or to this one: the error queue has the
// details. ENOBUFS means that a device of this host dropped the packet.
var transientErrnos = []unix.Errno{unix.EMSGSIZE, unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENOBUFS}

// wait waits for the answer to a packet.
func (p *probe) wait() (result answer, mtu int, err error) {
	deadline := time.Now().Add(p.timeout)
	for left := p.timeout; left > 0; left = time.Until(deadline) {
		ready := []unix.PollFd{{Fd: int32(p.socket)}} // POLLERR is always reported
		if _, err := unix.Poll(ready, int(left.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
			return silent, 0, err
		}
		if result, mtu = p.readErrorQueue(); result != silent {
			return result, mtu, nil
		}
	}
	return silent, 0, nil
}

// readErrorQueue reads the socket's error queue.
func (p *probe) readErrorQueue() (result answer, mtu int) {
	control := make([]byte, 512)
	_, used, _, _, err := unix.Recvmsg(p.socket, nil, control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if err != nil {
		return silent, 0
	}
	messages, err := unix.ParseSocketControlMessage(control[:used])
	if err != nil {
		return silent, 0
	}
	for i := range messages {
		m := &messages[i]
		if m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_RECVERR && len(m.Data) >= 12 {
			return parseExtendedError(m.Data)
		}
	}
	return silent, 0
}

// parseExtendedError parses a struct sock_extended_err (linux/errqueue.h): errno, origin, type, code, padding, info.
func parseExtendedError(extended []byte) (result answer, mtu int) {
	switch unix.Errno(binary.NativeEndian.Uint32(extended)) {
	case unix.ECONNREFUSED:
		return arrived, 0
	case unix.EMSGSIZE:
		return tooLarge, int(binary.NativeEndian.Uint32(extended[8:]))
	}
	return silent, 0
}
