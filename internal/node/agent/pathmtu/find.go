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
	// port is where nobody listens: the other end says so, and with it that the packet has arrived (as tracepath does).
	port = 44444
	// headerBytes are those of IPv4 and UDP.
	headerBytes = 20 + 8
	// leastBytes is what each host takes (RFC 791).
	leastBytes = 576
	// tries are made of each size, since answers are limited to one a second by Linux; each waits for patience.
	tries    = 3
	patience = time.Second
	// mostAnswers bounds how often routers may say a smaller MTU.
	mostAnswers = 16
)

// ErrSilent says that nobody answers: the other end is away, or a firewall keeps what it says (ICMP, port unreachable).
var ErrSilent = errors.New("nothing answers whether packets arrive")

// answer is what became of a packet.
type answer int

const (
	silent answer = iota
	arrived
	tooLarge
)

// Find finds the largest packet of IPv4, in bytes and at most largest, that arrives at a host in one piece. Routers say it, where they do
// (RFC 1191); else it is searched for (RFC 8899). It takes seconds where packets are swallowed.
func Find(ctx context.Context, to netip.Addr, largest int) (int, error) {
	return find(ctx, to, largest, patience)
}

// find waits for so long for an answer to each packet.
func find(ctx context.Context, to netip.Addr, largest int, patience time.Duration) (int, error) {
	p, err := dial(to, patience)
	if err != nil {
		return 0, fmt.Errorf("ask how large packets to %s can be: %w", to, err)
	}
	defer func() { _ = unix.Close(p.socket) }()
	size := largest
	for range mostAnswers {
		is, told, err := p.ask(ctx, size)
		switch {
		case err != nil:
			return 0, fmt.Errorf("ask how large packets to %s can be: %w", to, err)
		case is == arrived:
			return size, nil
		case is == silent:
			return p.search(ctx, size)
		case told < leastBytes || told >= size: // no MTU of a link
			return p.search(ctx, size)
		}
		size = told
	}
	return p.search(ctx, size)
}

// probe is a socket towards one host.
type probe struct {
	socket int
	to     netip.Addr
	// patience is how long to wait for an answer.
	patience time.Duration
}

func dial(to netip.Addr, patience time.Duration) (*probe, error) {
	if !to.Is4() {
		return nil, errors.New("it has no IPv4 address")
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	p := &probe{socket, to, patience}
	err = errors.Join(
		// Not to be fragmented, whatever the kernel believes of the path.
		unix.SetsockoptInt(socket, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE),
		unix.SetsockoptInt(socket, unix.IPPROTO_IP, unix.IP_RECVERR, 1),
		unix.Connect(socket, &unix.SockaddrInet4{Port: port, Addr: to.As4()}))
	if err != nil {
		_ = unix.Close(socket)
		return nil, err
	}
	return p, nil
}

// search finds the size by halves.
func (p *probe) search(ctx context.Context, fails int) (int, error) {
	fits := leastBytes
	is, _, err := p.ask(ctx, fits)
	switch {
	case err != nil:
		return 0, fmt.Errorf("ask how large packets to %s can be: %w", p.to, err)
	case is != arrived:
		return 0, fmt.Errorf("ask how large packets to %s can be: %w", p.to, ErrSilent)
	}
	first := fails
	for fits+1 < fails {
		half := (fits + fails) / 2
		is, _, err := p.ask(ctx, half)
		switch {
		case err != nil:
			return 0, fmt.Errorf("ask how large packets to %s can be: %w", p.to, err)
		case is == arrived:
			fits = half
		default:
			fails = half
		}
	}
	if fits+1 == first { // all but the first arrived, which may have been lost
		if is, _, err := p.ask(ctx, first); err == nil && is == arrived {
			fits = first
		}
	}
	return fits, nil
}

// ask sends packets of a size until something is said of one. told is the MTU that a router, or this host, says.
func (p *probe) ask(ctx context.Context, size int) (is answer, told int, err error) {
	for range tries {
		if err := ctx.Err(); err != nil {
			return silent, 0, err
		}
		_, err := unix.Write(p.socket, make([]byte, size-headerBytes))
		if err != nil && !slices.ContainsFunc(passing, func(errno unix.Errno) bool { return errors.Is(err, errno) }) {
			return silent, 0, err
		}
		if is, told, err := p.wait(); is != silent || err != nil {
			return is, told, err
		}
	}
	return silent, 0, nil
}

// passing are errors of a call that speak of a packet before, or of this one: the error queue says more. ENOBUFS is of one that a device of
// this host has swallowed.
var passing = []unix.Errno{unix.EMSGSIZE, unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENOBUFS}

// wait waits for what is said of a packet.
func (p *probe) wait() (is answer, told int, err error) {
	deadline := time.Now().Add(p.patience)
	for left := p.patience; left > 0; left = time.Until(deadline) {
		ready := []unix.PollFd{{Fd: int32(p.socket)}} // POLLERR comes unasked
		if _, err := unix.Poll(ready, int(left.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
			return silent, 0, err
		}
		if is, told = p.hear(); is != silent {
			return is, told, nil
		}
	}
	return silent, 0, nil
}

// hear reads what the socket's error queue has.
func (p *probe) hear() (is answer, told int) {
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
			return meaning(m.Data)
		}
	}
	return silent, 0
}

// meaning reads a struct sock_extended_err (linux/errqueue.h): errno, origin, type, code, padding, info.
func meaning(extended []byte) (is answer, told int) {
	switch unix.Errno(binary.NativeEndian.Uint32(extended)) {
	case unix.ECONNREFUSED:
		return arrived, 0
	case unix.EMSGSIZE:
		return tooLarge, int(binary.NativeEndian.Uint32(extended[8:]))
	}
	return silent, 0
}
