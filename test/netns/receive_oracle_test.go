// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	rings "github.com/kubernetsn/kubernetsn/internal/node/receive"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// alsoPodAddress6B is a second address of pod b.
var alsoPodAddress6B = podAddress6B.Next()

// receivers returns ktsn-test-receive of both C libraries.
func receivers(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{
		"glibc": program(t, "ktsn-test-receive"),
		"musl":  compileWithMusl(t, "receive", "receive/*.c", "-pthread"),
	}
}

// oracle is a lab whose pod a can request receive rings, with both families.
type oracle struct {
	*lab
	daemon      *process.Process
	client      *control.Client
	environment []string
	// asExpected counts runs with the expected number of datagrams in rings, late those in which ktsnd took too long
	// to create a ring.
	asExpected, late int
}

func newOracle(t *testing.T) *oracle {
	t.Helper()
	lab := newLab(t)
	addIPv6(t, lab.PodA, podAddress6A)
	addIPv6(t, lab.PodB, podAddress6B)
	lab.addAddress(t)
	ip(t, lab.PodB, "address", "add", alsoPodAddress6B.String()+"/32", "dev", topology.PodInterface, "nodad")
	// The host answers every rejected datagram, and pods reach themselves over IPv6.
	setZero(t, lab.PodB, "ipv4/icmp_ratelimit")
	setZero(t, lab.PodB, "ipv6/icmp/ratelimit")
	setZero(t, lab.PodA, "ipv6/conf/lo/disable_ipv6")
	side := lab.sideA()
	side.join(t, rings.Endpoint{Rings: true, IPv6: podAddress6A})
	side.admit(t, topology.PodSubnetB, podSubnet6B)
	daemon, client := lab.startDaemon(t)
	lab.addPeer6(t, client)
	lab.receiving(t, client)
	lab.warm(t, false)
	lab.warm(t, true)
	return &oracle{lab: lab, daemon: daemon, client: client, environment: append(lab.preloaded(t), "KTSN_RECEIVE=ring")}
}

// setZero sets a setting of a pod's network to 0.
func setZero(t *testing.T, pod *topology.Namespace, name string) {
	t.Helper()
	must(t, pod.Do(func() error { return os.WriteFile("/proc/sys/net/"+name, []byte("0"), 0) }))
}

// admit adds an allowed source to the program at the uplink.
func (s *receivingSide) admit(t *testing.T, behind ...netip.Prefix) {
	t.Helper()
	must(t, s.node.Do(func() error {
		maps, err := rings.Open(rings.DefaultDir)
		if err != nil {
			return err
		}
		defer maps.Close()
		return maps.SetPeers(topology.VNI, s.tunnel, []control.Peer{{VNI: topology.VNI, Address: s.peer, Subnets: behind}})
	}))
}

// longestCase is the timeout of a case, which takes about a second.
const longestCase = 10 * time.Second

// caseResult is a case's output and the number of datagrams sent to it.
type caseResult struct {
	lines []string
	sent  int
	err   error
}

// runReceiveCase runs a case in pod a. environment nil means without libktsn.
func (l *lab) runReceiveCase(program, family, name string, environment []string, meanwhile func()) (result caseResult) {
	sender, err := l.newAskedSender(family == "ipv6")
	if err != nil {
		return caseResult{err: err}
	}
	command := exec.Command(program, family, name)
	command.Env = environment
	command.ExtraFiles = []*os.File{sender.theirs}
	var output bytes.Buffer
	command.Stdout = &output
	running, err := process.Start(l.PodA, name, command)
	if err == nil {
		meanwhile()
		select {
		case <-running.Done():
			err = running.Wait()
		case <-time.After(longestCase):
			err = fmt.Errorf("it does not end; its threads:\n%s", running.Threads())
			err = errors.Join(err, syscall.Kill(-running.PID(), syscall.SIGKILL), running.Wait()) // and its children
		}
	}
	result.sent, result.err = sender.end()
	if err != nil { // it outranks the sender's error
		result.err = err
	}
	result.lines = slices.Collect(strings.Lines(output.String()))
	return result
}

// apart returns the differences of two outputs line by line, with the common lines before them.
func apart(kernel, ring caseResult) (all []string) {
	if kernel.err != nil || ring.err != nil {
		return []string{fmt.Sprintf("without libktsn: %v\nwith a ring: %v\nit said:\n%s", kernel.err, ring.err, strings.Join(ring.lines, ""))}
	}
	if slices.Equal(kernel.lines, ring.lines) {
		return nil
	}
	at := 0
	for at < min(len(kernel.lines), len(ring.lines)) && kernel.lines[at] == ring.lines[at] {
		at++
	}
	var text strings.Builder
	for _, part := range []struct {
		mark  string
		lines []string
	}{{" ", kernel.lines[:at]}, {"-", kernel.lines[at:]}, {"+", ring.lines[at:]}} {
		for _, line := range part.lines {
			text.WriteString("\n" + part.mark + " " + strings.TrimSuffix(line, "\n"))
		}
	}
	return []string{"the kernel (-) and libktsn (+) say:" + text.String()}
}

// compare runs a case with and without libktsn at the same time.
func (o *oracle) compare(t *testing.T, program, family string, test *receiveCase) []string {
	t.Helper()
	before := o.sideA().counts(t).Received
	plain := make(chan caseResult)
	go func() { plain <- o.runReceiveCase(program, family, test.name, nil, func() {}) }()
	ring := o.runReceiveCase(program, family, test.name, o.environment, func() {})
	complaints := apart(<-plain, ring)
	got := o.sideA().counts(t).Received - before
	switch {
	case test.inRing == some:
	case uint64(test.inRing) == got:
		o.asExpected++
	case got < uint64(test.inRing) && o.slow(t, program):
		o.late++
	default:
		complaints = append(complaints, fmt.Sprintf("%d datagrams came into rings, want %d; ktsnd reports %+v", got, test.inRing,
			receivedOf(t, o.client)))
	}
	return complaints
}

// slow reports whether ktsnd currently takes more than 100 ms to create a ring, as on a busy machine.
func (o *oracle) slow(t *testing.T, program string) bool {
	t.Helper()
	for range 3 {
		before := o.sideA().counts(t).Received
		o.runReceiveCase(program, "ipv4", "recv", o.environment, func() {})
		if o.sideA().counts(t).Received == before {
			return true
		}
	}
	return false
}

func TestReceiverTableMatchesProgram(t *testing.T) {
	timing(t)
	var known []string
	for _, test := range receiveCases {
		known = append(known, test.name)
	}
	checkListed(t, "ktsn-test-receive", known)
}

func TestReceiveRingMatchesKernel(t *testing.T) {
	timing(t)
	t.Parallel()
	for libc, program := range receivers(t) {
		t.Run(libc, func(t *testing.T) {
			t.Parallel()
			o := newOracle(t)
			for _, test := range receiveCases {
				for _, family := range test.families {
					t.Run(family+", "+test.sentence, func(t *testing.T) { o.check(t, program, family, &test) })
				}
			}
			if t.Logf("ktsnd was late in %d runs, in time in %d", o.late, o.asExpected); o.asExpected == 0 {
				t.Error("the kernel was compared with itself")
			}
		})
	}
}

func (o *oracle) check(t *testing.T, program, family string, test *receiveCase) {
	t.Helper()
	compare := func() []string { return o.compare(t, program, family, test) }
	if test.differs != "" {
		t.Logf("known: %s\n%q", test.differs, compare())
		return
	}
	for _, complaint := range testlab.Undisturbed(t, testlab.Stopped, compare) {
		t.Error(complaint)
	}
}

func TestReceiveRingBeforeTCX(t *testing.T) {
	timing(t)
	o := newOracle(t)
	o.sideA().endByTCX(t)
	for _, name := range []string{"recv", "epoll"} {
		at := slices.IndexFunc(receiveCases, func(test receiveCase) bool { return test.name == name })
		t.Run(name, func(t *testing.T) { o.check(t, program(t, "ktsn-test-receive"), "ipv4", &receiveCases[at]) })
	}
}

func TestReceiversLoseNothingWhileKtsndIsSlow(t *testing.T) {
	content(t)
	for libc, program := range receivers(t) {
		t.Run(libc, func(t *testing.T) {
			o := newOracle(t)
			signal(t, o.daemon, syscall.SIGSTOP)
			ring := o.runReceiveCase(program, "ipv4", "many-sockets-for-a-while", o.environment, func() {
				time.Sleep(300 * time.Millisecond)
				signal(t, o.daemon, syscall.SIGCONT)
			})
			plain := o.runReceiveCase(program, "ipv4", "many-sockets-for-a-while", nil, func() {})
			for _, complaint := range apart(plain, ring) {
				t.Error(complaint)
			}
			if got := o.sideA().counts(t).Received; got == 0 {
				t.Error("none of the sockets got a ring")
			}
		})
	}
}

// receiveCase is a case of ktsn-test-receive, by name.
type receiveCase struct {
	sentence, name string
	// inRing is the number of its datagrams that arrive in a ring. The others are in the kernel's queue.
	inRing   int
	families families
	// differs is libktsn's documented difference (docs/reference/receiving.md).
	differs string
}

// some means that the number depends on how fast ktsnd answers or detects the end of a process.
const some = -1

// families are the socket families of a case.
type families []string

var (
	ipv4  = families{"ipv4"}
	every = families{"ipv4", "ipv6", "mapped"}
)

var receiveCases = []receiveCase{
	{"recv", "recv", 3, every, ""},
	{"read and readv", "read", 3, ipv4, ""},
	{"datagrams that came before the first look", "first-received-when-it-is-there", 2, every, ""},
	{"calls that block until one comes", "blocks-until-one-comes", 2, ipv4, ""},
	{"O_NONBLOCK and MSG_DONTWAIT, set and taken away", "does-not-block", 3, ipv4, ""},
	{"MSG_PEEK", "peeks", 3, ipv4, ""},
	{"flags of recvmsg, with too little room", "flags", 6, every, ""},
	{"recvmmsg of several", "recvmmsg", 10, every, ""},
	{"recvmmsg with a timeout", "recvmmsg-within-a-time", 6, ipv4, ""},
	{"SO_RCVTIMEO that passes, and does not", "waits-within-a-time", 2, ipv4, ""},
	{"FIONREAD", "counts-bytes", 4, ipv4, ""},
	{"datagrams of all lengths", "every-length", 8, every, ""},
	{"datagrams in fragments beside whole ones", "comes-in-fragments", 3, every, ""},
	{"empty datagrams", "empty", 4, ipv4, ""},
	{"calls that want no bytes", "wants-no-bytes", 4, ipv4, ""},
	{"too little room for the address", "little-room-for-the-address", 11, every, ""},
	{"a datagram in pieces", "pieces", 4, every, ""},
	{"calls that the kernel refuses", "asks-for-what-cannot-be", 1, ipv4, ""},
	{"each control message, asked for of a socket that is read", "control-messages-asked-for-later", 10, every, ""},
	{"each control message, asked for before the first look", "control-messages-asked-for-before", 9, every, ""},
	{"all control messages together", "all-control-messages", 3, every, ""},
	{"too little room for control messages", "little-room-for-control-messages", 35, every, ""},
	{"control messages of what is there already", "control-messages-asked-for-after-the-arrival", 1, every, ""},
	{"time stamps of both queues", "stamps-in-order", 2, every, ""},
	{"SO_TIMESTAMPING, before and after the first look", "timestamping", 2, ipv4, ""},
	{"UDP_GRO, before and after the first look", "gro", 2, ipv4, ""},
	{"SO_PEEK_OFF", "peeks-at-an-offset", 1, ipv4, ""},
	{"SO_PEEK_OFF with datagrams there", "peeks-at-an-offset-of-what-was-there", 2, ipv4, "what is in a ring is peeked at from its beginning"},
	{"a filter, before and after the first look", "filter", 2, ipv4, ""},
	{"SO_RCVBUF, before and after the first look", "receive-buffer", 120, ipv4, ""},
	{"poll", "poll", 3, every, ""},
	{"poll as the first look", "poll-before-it-reads", some, ipv4, ""},
	{"poll of several descriptors", "poll-of-several", 2, ipv4, ""},
	{"ppoll", "ppoll", 1, ipv4, ""},
	{"select", "select", 3, ipv4, ""},
	{"pselect", "pselect", 1, ipv4, ""},
	{"poll for datagrams of the same node", "poll-for-what-comes-another-way", 1, every, ""},
	{"an event loop with poll", "reads-until-there-is-nothing", 9, ipv4, ""},
	{"epoll", "epoll", 4, every, ""},
	{"a set of epoll that changes", "epoll-set-that-changes", 1, ipv4, ""},
	{"EPOLLET", "epoll-edge", 4, ipv4, ""},
	{"EPOLLET of what was there", "epoll-edge-of-what-was-there", 1, ipv4, ""},
	{"EPOLLONESHOT", "epoll-once", 3, ipv4, ""},
	{"in a set before it is bound", "epoll-before-it-is-bound", some, ipv4, ""},
	{"in a set before it is read", "epoll-before-it-is-read", 7, ipv4, ""},
	{"a copy in a set", "epoll-of-a-copy", 2, ipv4, ""},
	{"a copy in a set, whose original is closed", "epoll-of-a-copy-whose-original-is-closed", 1, ipv4, ""},
	{"in several sets", "epoll-in-several-sets", 2, ipv4, ""},
	{"epoll for datagrams of the same node", "epoll-of-what-comes-another-way", 1, every, ""},
	{"a set of epoll that changes by io_uring", "epoll-by-io-uring", 0, ipv4, ""},
	{"an io_uring after the first look", "epoll-by-io-uring-made-later", 3, ipv4, ""},
	{"an io_uring of a child of vfork", "io-uring-of-a-vforked-child", 3, ipv4, ""},
	{"datagrams from several addresses", "sources", 3, every, ""},
	{"a connected socket", "connected", 2, every, ""},
	{"a socket that is connected later", "connected-later", 4, every, ""},
	{"a socket that is connected anew", "connected-anew", some, every, ""},
	{"a socket that loses its port with its peer", "loses-its-port", some, ipv4, ""},
	{"a socket that is bound by a send", "bound-by-a-send", 3, ipv4, ""},
	{"a socket that is bound after a read", "bound-after-a-read", 2, ipv4, ""},
	{"bound to the address beside bound to any", "bound-to-an-address", 6, every, ""},
	{"a connected socket beside another of the port", "connected-beside-another", 6, every, ""},
	{"SO_BINDTODEVICE, before and after the first look", "bound-to-a-device", 1, ipv4, ""},
	{"datagrams of the same node in between", "those-of-the-same-node-as-well", 8, every, ""},
	{"a socket connected to itself", "connected-to-itself", 0, ipv4, ""},
	{"SO_REUSEPORT", "shares-a-port", 24, every, ""},
	{"SO_REUSEPORT, and one of the sockets is not read", "shares-a-port-and-one-looks", some, ipv4, ""},
	{"32 sockets", "many-sockets", 96, ipv4, ""},
	{"32 sockets for a while", "many-sockets-for-a-while", 288, ipv4, ""},
	{"copies by dup, dup2, dup3 and fcntl", "copies", 10, ipv4, ""},
	{"a copy made before the first look", "copied-before-it-is-read", 5, ipv4, ""},
	{"the original closed and its copy read", "original-closed", 2, ipv4, ""},
	{"the copy closed and the original read", "copy-closed", 2, ipv4, ""},
	{"the number used again by a socket", "number-used-again", 4, ipv4, ""},
	{"the number used again after fclose", "number-used-again-after-fclose", 4, ipv4, ""},
	{"another socket put over it by dup2", "number-used-again-by-another-copy", 4, ipv4, ""},
	{"a file put over it by dup2", "number-used-again-by-a-file", 1, ipv4, ""},
	{"the number used again by a file after fclose", "number-used-again-by-a-file-after-fclose", 1, ipv4, "for 10 ms the ring of a socket that fclose closed is read in place of the file"},
	{"a loop of close around it", "others-closed", 5, ipv4, ""},
	{"the port used again", "port-used-again", 5, ipv4, ""},
	{"opened and closed often", "opened-and-closed-often", 40, ipv4, ""},
	{"shutdown for reading", "shut-down", 3, every, ""},
	{"fork, and the child reads", "forked-and-the-child-reads", 6, ipv4, ""},
	{"fork, and the child waits", "forked-and-the-child-waits", 3, ipv4, ""},
	{"fork, and the child looks first", "forked-and-the-child-looks-first", some, ipv4, ""},
	{"fork, and both read", "forked-and-both-read", 40, ipv4, ""},
	{"fork, and the parent closes", "forked-and-the-parent-closes", 3, ipv4, ""},
	{"fork, and the parent ends", "forked-and-the-parent-ends", some, ipv4, ""},
	{"exec with the socket", "execs-with-its-socket", some, ipv4, ""},
	{"exec with the socket, to a program without libktsn", "execs-without-an-environment", some, ipv4, ""},
	{"vfork and exec, and both read", "starts-a-program-with-its-socket", some, ipv4, ""},
	{"posix_spawn, and both read", "spawns-a-program-with-its-socket", some, ipv4, ""},
	{"passed to another program, and both read", "passes-its-socket-to-a-program", 0, ipv4, ""},
	{"passed to another program and closed", "passes-its-socket-to-a-program-and-closes-it", 0, ipv4, ""},
	{"passed to a program without libktsn", "passes-its-socket-to-a-program-without-an-environment", 0, ipv4, ""},
	{"passed to itself", "passes-its-socket-to-itself", 0, ipv4, ""},
	{"four threads that block on a socket", "threads-block", 64, ipv4, ""},
	{"four threads that look at once", "threads-look-first", some, ipv4, ""},
	{"four threads that poll a socket", "threads-poll", 64, ipv4, ""},
	{"shutdown while a thread receives", "shut-down-beside-a-reader", 0, ipv4, ""},
	{"close while a thread receives", "closed-beside-a-reader", 3, ipv4, ""},
	{"a copy closed while a thread receives", "copy-closed-beside-a-reader", 1, ipv4, ""},
	{"another thread opens and closes sockets", "others-open-and-close", 20, ipv4, ""},
	{"time stamps asked for while a thread receives", "stamps-asked-for-beside-a-reader", 1, ipv4, ""},
	{"UDP_GRO asked for while a thread receives", "gro-asked-for-beside-a-reader", 0, ipv4, ""},
	{"connect while a thread receives", "connected-beside-a-reader", 1, ipv4, ""},
	{"O_NONBLOCK after a thread has received", "does-not-block-after-a-reader", 1, ipv4, ""},
	{"EINTR", "signal-ends-a-call", 1, ipv4, ""},
	{"SA_RESTART", "signal-does-not-end-a-call", 2, ipv4, ""},
	{"EINTR with SO_RCVTIMEO", "signal-ends-a-call-within-a-time", 0, ipv4, ""},
	{"a signal that is ignored", "signal-ignored", 1, ipv4, ""},
	{"EINTR of poll, select and epoll_wait", "signal-ends-waiting", 0, ipv4, ""},
	{"the masks of ppoll and pselect", "signal-let-in-while-it-waits", 0, ipv4, ""},
	{"a signal handler that receives", "signal-handler-receives", 43, ipv4, ""},
	{"ECONNREFUSED", "refused", 0, every, ""},
	{"ECONNREFUSED while it waits", "refused-while-it-waits", 0, ipv4, ""},
	{"ECONNREFUSED after poll", "refused-and-polled", 0, ipv4, ""},
	{"ECONNREFUSED after select", "refused-and-selected", 0, ipv4, ""},
	{"ECONNREFUSED after epoll_wait", "refused-and-in-a-set", 0, ipv4, ""},
	{"ECONNREFUSED before datagrams", "refused-with-datagrams-there", 3, every, ""},
	{"ECONNREFUSED of recvmmsg", "refused-before-recvmmsg", 2, ipv4, ""},
	{"ECONNREFUSED within recvmmsg", "refused-within-recvmmsg", 1, ipv4, ""},
	{"no socket gets an error without a connection", "refused-without-a-connection", 1, ipv4, ""},
}

// requestedSender is pod b, which sends the datagrams that ktsn-test-receive requests.
type requestedSender struct {
	podA    netip.Addr
	sources [3]requestedSource
	// marker is a socket in pod a outside the test, with the kernel's queue. A datagram to it arrives after all others
	// of the sender: one CPU moves them from queue to queue.
	marker   int
	markerAt netip.AddrPort
	channel  int
	// theirs is the program's end of the channel.
	theirs *os.File
	done   sync.WaitGroup
	// sent counts all datagrams except markers.
	sent int
	err  error
}

type requestedSource struct {
	fd int
	at netip.AddrPort
}

// request is a program's request: struct sending of datapath/tests/programs/receive/receive.h.
type request struct {
	afterMS, source, port, count, bytes, tos, ttl int
	label                                         string
}

// newAskedSender creates the sender for a program that is about to start.
func (l *lab) newAskedSender(ipv6 bool) (*requestedSender, error) {
	s := &requestedSender{podA: topology.PodAddressA, marker: -1, channel: -1}
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

// end waits for the end of the program and returns the number of datagrams sent to it.
func (s *requestedSender) end() (int, error) {
	s.theirs.Close()
	_ = unix.Shutdown(s.channel, unix.SHUT_RDWR) // a child of the program may still have it
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

// keepProcessor pins the thread to one of its allowed CPUs.
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

// serve answers line by line from one CPU.
func (s *requestedSender) serve() {
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

func (s *requestedSender) answer(line string) error {
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

func (s *requestedSender) tell(text string) error {
	_, err := unix.Write(s.channel, []byte(text+"\n"))
	return err
}

func (s *requestedSender) do(asked *request) error {
	if asked.afterMS > 0 { // the program continues meanwhile
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

// payload returns the text, padded to the requested length.
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

// control returns the control messages of a datagram with its own traffic class or hop limit.
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

// mark waits until all datagrams of a source have reached the kernel's queue or the ring.
func (s *requestedSender) mark(from int) error {
	if err := unix.Sendto(from, []byte("marker"), 0, sockaddrOf(s.markerAt)); err != nil {
		return err
	}
	_, _, err := testlab.Receive(s.marker, make([]byte, 16))
	return err
}

// warm resolves the pods' link addresses: a datagram that waits for an answer would arrive late.
func (l *lab) warm(t *testing.T, ipv6 bool) {
	t.Helper()
	s, err := l.newAskedSender(ipv6)
	must(t, err)
	for _, source := range s.sources {
		must(t, s.mark(source.fd))
	}
	if _, err := s.end(); err != nil {
		t.Fatal(err)
	}
}
