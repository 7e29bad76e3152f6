// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	rings "github.com/kubernetsn/kubernetsn/internal/node/receive"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// alsoPodAddress6B is a second address of pod b.
var alsoPodAddress6B = podAddress6B.Next()

// receivers are ktsn-test-receive of both C libraries.
func receivers(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{
		"glibc": program(t, "ktsn-test-receive"),
		"musl":  compileWithMusl(t, "receive", "receive/*.c", "-pthread"),
	}
}

// oracle is a lab whose pod a gets receive rings, when it asks, of both families.
type oracle struct {
	*lab
	daemon      *process.Process
	client      *control.Client
	environment []string
	// asExpected are the runs in which as many datagrams came into rings as should; late are others, in which ktsnd took too long
	// to make one.
	asExpected, late int
}

func newOracle(t *testing.T) *oracle {
	t.Helper()
	lab := newLab(t)
	addIPv6(t, lab.PodA, podAddress6A)
	addIPv6(t, lab.PodB, podAddress6B)
	lab.addAddress(t)
	ip(t, lab.PodB, "address", "add", alsoPodAddress6B.String()+"/32", "dev", topology.PodInterface, "nodad")
	// A host that answers every refused datagram, and pods whose IPv6 reaches themselves.
	set(t, lab.PodB, "ipv4/icmp_ratelimit", "0")
	set(t, lab.PodB, "ipv6/icmp/ratelimit", "0")
	set(t, lab.PodA, "ipv6/conf/lo/disable_ipv6", "0")
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

// set changes a setting of a pod's network.
func set(t *testing.T, pod *topology.Namespace, name, value string) {
	t.Helper()
	if err := pod.Do(func() error { return os.WriteFile("/proc/sys/net/"+name, []byte(value), 0) }); err != nil {
		t.Fatal(err)
	}
}

// admit has the program at the uplink take what comes from there.
func (s *receivingSide) admit(t *testing.T, behind ...netip.Prefix) {
	t.Helper()
	err := s.node.Do(func() error {
		maps, err := rings.Open(rings.DefaultDir)
		if err != nil {
			return err
		}
		defer maps.Close()
		return maps.SetPeers(topology.VNI, s.tunnel, []control.Peer{{VNI: topology.VNI, Address: s.peer, Subnets: behind}})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// longestCase is how long a case may take that takes a second.
const longestCase = 10 * time.Second

// told is what a case said, and how many datagrams it was sent.
type told struct {
	lines []string
	sent  int
	err   error
}

// tell runs a case in pod a. environment nil is one without libktsn.
func (l *lab) tell(program, family, name string, environment []string, meanwhile func()) (result told) {
	sender, err := l.newAskedSender(family == "ipv6")
	if err != nil {
		return told{err: err}
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
	if err != nil { // then the sender's is of no interest
		result.err = err
	}
	result.lines = slices.Collect(strings.Lines(output.String()))
	return result
}

// apart shows where two outputs differ, line by line, with what both say before.
func apart(kernel, ring told) (all []string) {
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

// compare runs a case without libktsn and with it, side by side.
func (o *oracle) compare(t *testing.T, program, family string, test *receiveCase) []string {
	t.Helper()
	before := o.sideA().counts(t).Received
	plain := make(chan told)
	go func() { plain <- o.tell(program, family, test.name, nil, func() {}) }()
	ring := o.tell(program, family, test.name, o.environment, func() {})
	complaints := apart(<-plain, ring)
	got := o.sideA().counts(t).Received - before
	switch {
	case test.inRing == some:
	case uint64(test.inRing) == got:
		o.asExpected++
	case got < uint64(test.inRing) && o.slow(t, program):
		o.late++
	default:
		complaints = append(complaints, fmt.Sprintf("%d datagrams came into rings, want %d; ktsnd says %+v", got, test.inRing,
			receivedOf(t, o.client)))
	}
	return complaints
}

// slow tells whether ktsnd takes more than 100 ms to make a ring now, as on a machine that has much else to do.
func (o *oracle) slow(t *testing.T, program string) bool {
	t.Helper()
	for range 3 {
		before := o.sideA().counts(t).Received
		o.tell(program, "ipv4", "recv", o.environment, func() {})
		if o.sideA().counts(t).Received == before {
			return true
		}
	}
	return false
}

func TestReceiverTableMatchesProgram(t *testing.T) {
	timing(t)
	output, err := exec.Command(program(t, "ktsn-test-receive"), "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, test := range receiveCases {
		known = append(known, test.name)
	}
	if programs := strings.Fields(string(output)); !slices.Equal(known, programs) {
		t.Errorf("the test knows\n%q\nthe program\n%q", known, programs)
	}
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

func TestReceiversLoseNothingWhileKtsndIsSlow(t *testing.T) {
	content(t)
	for libc, program := range receivers(t) {
		t.Run(libc, func(t *testing.T) {
			o := newOracle(t)
			signal(t, o.daemon, syscall.SIGSTOP)
			ring := o.tell(program, "ipv4", "many-sockets-for-a-while", o.environment, func() {
				time.Sleep(300 * time.Millisecond)
				signal(t, o.daemon, syscall.SIGCONT)
			})
			plain := o.tell(program, "ipv4", "many-sockets-for-a-while", nil, func() {})
			for _, complaint := range apart(plain, ring) {
				t.Error(complaint)
			}
			if got := o.sideA().counts(t).Received; got == 0 {
				t.Error("none of the sockets got a ring")
			}
		})
	}
}
