// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// askedSender is pod b, which sends what a ktsn-test-receive asks for.
type askedSender struct {
	podA    netip.Addr
	sources [3]askedSource
	// marker is a socket in pod a that belongs to nobody's test, with the kernel's queue. A datagram to it comes behind all
	// others of the sender: one processor brings them from queue to queue.
	marker   int
	markerAt netip.AddrPort
	channel  int
	// theirs is the program's end of the channel.
	theirs *os.File
	done   sync.WaitGroup
	// sent are all datagrams but markers.
	sent int
	err  error
}

type askedSource struct {
	fd int
	at netip.AddrPort
}

// request is what a program asks for: struct sending of datapath/tests/programs/receive/receive.h.
type request struct {
	afterMS, source, port, count, bytes, tos, ttl int
	label                                         string
}

// newAskedSender begins to listen to a program that is about to start.
func (l *lab) newAskedSender(ipv6 bool) (*askedSender, error) {
	s := &askedSender{podA: topology.PodAddressA, marker: -1, channel: -1}
	peers := [3]netip.Addr{topology.PodAddressB, topology.PodAddressB, alsoPodAddressB}
	if ipv6 {
		s.podA, peers = podAddress6A, [3]netip.Addr{podAddress6B, podAddress6B, alsoPodAddress6B}
	}
	err := l.PodA.Do(func() (err error) {
		s.marker, s.markerAt, err = boundSocket(s.podA)
		return err
	})
	if err == nil {
		err = unix.SetsockoptTimeval(s.marker, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5})
	}
	for i := 0; err == nil && i < len(peers); i++ {
		err = l.PodB.Do(func() (err error) {
			s.sources[i].fd, s.sources[i].at, err = boundSocket(peers[i])
			return err
		})
	}
	var ends [2]int
	if err == nil {
		ends, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	}
	if err != nil {
		return nil, err
	}
	s.channel, s.theirs = ends[0], os.NewFile(uintptr(ends[1]), "channel")
	s.done.Go(s.serve)
	return s, nil
}

// end waits until the program has gone, and returns how many datagrams it was sent.
func (s *askedSender) end() (int, error) {
	s.theirs.Close()
	_ = unix.Shutdown(s.channel, unix.SHUT_RDWR) // a child of the program may have it still
	s.done.Wait()
	for _, fd := range []int{s.marker, s.channel, s.sources[0].fd, s.sources[1].fd, s.sources[2].fd} {
		_ = unix.Close(fd)
	}
	return s.sent, s.err
}

func boundSocket(at netip.Addr) (int, netip.AddrPort, error) {
	family, address := unix.AF_INET, sockaddrOf(netip.AddrPortFrom(at, 0))
	if at.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, address)
	}
	if err != nil {
		return -1, netip.AddrPort{}, err
	}
	bound, err := unix.Getsockname(fd)
	switch bound := bound.(type) {
	case *unix.SockaddrInet4:
		return fd, netip.AddrPortFrom(at, uint16(bound.Port)), err
	case *unix.SockaddrInet6:
		return fd, netip.AddrPortFrom(at, uint16(bound.Port)), err
	}
	return fd, netip.AddrPort{}, err
}

func sockaddrOf(at netip.AddrPort) unix.Sockaddr {
	if at.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}
	}
	return &unix.SockaddrInet6{Addr: at.Addr().As16(), Port: int(at.Port())}
}

// keepProcessor has a thread stay on one of the processors that it may run on.
func keepProcessor() error {
	var all, single unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	for cpu, chosen := 0, rand.N(all.Count()); cpu < 64*len(all); cpu++ {
		if !all.IsSet(cpu) {
			continue
		}
		if chosen == 0 {
			single.Set(cpu)
			break
		}
		chosen--
	}
	return unix.SchedSetaffinity(0, &single)
}

// serve answers line by line, from one processor.
func (s *askedSender) serve() {
	runtime.LockOSThread() // and never unlocked: the thread ends with its affinity
	if s.err = keepProcessor(); s.err != nil {
		return
	}
	var had []byte
	buffer := make([]byte, 4096)
	for {
		n, err := testlab.Read(s.channel, buffer)
		if err != nil || n == 0 {
			return
		}
		had = append(had, buffer[:n]...)
		for {
			line, rest, whole := strings.Cut(string(had), "\n")
			if !whole {
				break
			}
			had = []byte(rest)
			if s.err = s.answer(line); s.err != nil {
				_ = unix.Shutdown(s.channel, unix.SHUT_RDWR)
				return
			}
		}
	}
}

func (s *askedSender) answer(line string) error {
	fields := strings.Fields(line)
	switch {
	case line == "who":
		a, b, c := s.sources[0].at, s.sources[1].at, s.sources[2].at
		return s.tell(fmt.Sprintf("%s %s %d %s %d %s %d", s.podA, a.Addr(), a.Port(), b.Addr(), b.Port(), c.Addr(), c.Port()))
	case line == "sync":
		return s.tell("sent")
	case len(fields) == 9 && fields[0] == "send":
		var asked request
		for i, into := range []*int{&asked.afterMS, &asked.source, &asked.port, &asked.count, &asked.bytes, &asked.tos, &asked.ttl} {
			var err error
			if *into, err = strconv.Atoi(fields[1+i]); err != nil {
				return err
			}
		}
		asked.label = fields[8]
		return s.do(&asked)
	}
	return fmt.Errorf("the program asks for %q", line)
}

func (s *askedSender) tell(text string) error {
	_, err := unix.Write(s.channel, []byte(text+"\n"))
	return err
}

func (s *askedSender) do(asked *request) error {
	if asked.afterMS > 0 { // the program goes on meanwhile
		if err := s.tell("sent"); err != nil {
			return err
		}
		time.Sleep(time.Duration(asked.afterMS) * time.Millisecond)
	}
	from := s.sources[asked.source].fd
	for i := range asked.count {
		if err := unix.Sendmsg(from, asked.payload(i), asked.control(s.podA.Is6()), sockaddrOf(netip.AddrPortFrom(s.podA, uint16(asked.port))), 0); err != nil {
			return err
		}
		s.sent++
	}
	if err := s.mark(from); err != nil || asked.afterMS > 0 {
		return err
	}
	return s.tell("sent")
}

// payload is the text, and further characters for those of a length.
func (r *request) payload(number int) []byte {
	text := fmt.Appendf(nil, "%s%d", r.label, number)
	switch {
	case r.bytes < 0:
		return nil
	case r.bytes == 0:
		return text
	}
	for len(text) < r.bytes {
		text = append(text, byte('a'+len(text)%26))
	}
	return text[:r.bytes]
}

// control is what goes with a datagram that has a class or a number of hops of its own.
func (r *request) control(ipv6 bool) (all []byte) {
	level, tos, ttl := unix.IPPROTO_IP, unix.IP_TOS, unix.IP_TTL
	if ipv6 {
		level, tos, ttl = unix.IPPROTO_IPV6, unix.IPV6_TCLASS, unix.IPV6_HOPLIMIT
	}
	for option, value := range map[int]int{tos: r.tos, ttl: r.ttl} {
		if value == 0 {
			continue
		}
		message := make([]byte, 0, unix.CmsgSpace(4))
		message = binary.NativeEndian.AppendUint64(message, uint64(unix.CmsgLen(4)))
		message = binary.NativeEndian.AppendUint32(message, uint32(level))
		message = binary.NativeEndian.AppendUint32(message, uint32(option))
		message = binary.NativeEndian.AppendUint32(message, uint32(value))
		all = append(all, message[:cap(message)]...)
	}
	return all
}

// mark waits until all that a source has sent is where the kernel, or whoever is in its place, keeps it.
func (s *askedSender) mark(from int) error {
	if err := unix.Sendto(from, []byte("marker"), 0, sockaddrOf(s.markerAt)); err != nil {
		return err
	}
	_, _, err := testlab.Receive(s.marker, make([]byte, 16))
	return err
}

// warm has pods know each other's link addresses: what waits for an answer comes later than what does not.
func (l *lab) warm(t *testing.T, ipv6 bool) {
	t.Helper()
	s, err := l.newAskedSender(ipv6)
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range s.sources {
		if err := s.mark(source.fd); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.end(); err != nil {
		t.Fatal(err)
	}
}
