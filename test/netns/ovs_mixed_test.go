// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// startDirectFarEnd starts a ktsnd on node b that sends by itself, and returns what pod b's programs need for it.
func (l *ovsLab) startDirectFarEnd(t *testing.T) (*control.Client, []string) {
	t.Helper()
	controlSocket, socket := filepath.Join(l.dir, "control-b.sock"), filepath.Join(l.dir, "app-b.sock")
	daemon := start(t, l.NodeB, "ktsnd of node b", exec.Command(program(t, "ktsnd"), "--interface", topology.PhysicalInterface,
		"--local-address", topology.NodeAddressB.String(), "--control", controlSocket))
	client := connect(t, daemon, controlSocket)
	err := errors.Join(
		client.SocketAdd(t.Context(), "pod-b", socket),
		client.EndpointAdd(t.Context(), control.Endpoint{Identity: "pod-b", Interface: topology.PodInterface, Netns: l.PodB.Path(), VNI: topology.VNI}),
		client.PeerAdd(t.Context(), control.Peer{VNI: topology.VNI, Address: topology.NodeAddressA, Subnets: []netip.Prefix{topology.PodSubnetA}}))
	if err != nil {
		t.Fatal(err)
	}
	return client, append(os.Environ(), "LD_PRELOAD="+program(t, "libktsn.so"), "KTSN_SOCKET="+socket)
}

// stream is messages from one pod to the other.
type stream struct {
	from, to       *topology.Namespace
	source, target netip.AddrPort
	timed          bool
	environment    []string
	*flow
}

func (s *stream) start(t *testing.T, count int) {
	t.Helper()
	s.flow = listenFor(t, s.to, s.target, count)
	arguments := []string{"talker", "--quiet", "--clock", "tai", "--csv", s.talkerFile, "--bind", s.source.String(), "--to", s.target.String(),
		"--count", strconv.Itoa(count), "--cycle", "2ms"}
	if !s.timed {
		arguments = append(arguments, "--no-txtime")
	}
	command := exec.Command(program(t, "tsnperf"), arguments...)
	command.Env = s.environment
	s.talker = start(t, s.from, "talker", command)
}

// check waits for the end, and expects each message once, unchanged, from the talker's own address, and no timed one early.
func (s *stream) check(t *testing.T, count int) {
	t.Helper()
	s.finish(t)
	if len(s.sent) != count {
		t.Errorf("%d messages were sent", len(s.sent))
	}
	came := map[uint32]bool{}
	for _, message := range s.received {
		if !message.Valid || message.Source != s.source || came[message.Sequence] {
			t.Errorf("from %s came %+v", s.source, message)
		}
		if s.timed && message.Arrival < message.Txtime {
			t.Errorf("message %d came %d ns before its time", message.Sequence, message.Txtime-message.Arrival)
		}
		came[message.Sequence] = true
	}
	if len(came) != count {
		t.Errorf("%d of %d messages came from %s", len(came), count, s.source)
	}
}

// Node a is behind Open vSwitch, node b is not; timed and other messages go both ways at once.
func TestNodesWithAndWithoutOpenVSwitch(t *testing.T) {
	timing(t)
	lab := newOVSLab(t)
	_, switched := lab.startOVSDaemon(t)
	lab.awaitConnected(t)
	direct, farEnvironment := lab.startDirectFarEnd(t)
	a, b := topology.PodAddressA, topology.PodAddressB
	const count = 300
	streams := map[string]*stream{
		"timed, into the tunnel of Open vSwitch": {from: lab.PodA, to: lab.PodB, source: netip.AddrPortFrom(a, 6001),
			target: netip.AddrPortFrom(b, 7001), timed: true, environment: lab.preloaded(t)},
		"timed, out of it": {from: lab.PodB, to: lab.PodA, source: netip.AddrPortFrom(b, 6002),
			target: netip.AddrPortFrom(a, 7002), timed: true, environment: farEnvironment},
		"ordinary, into it":   {from: lab.PodA, to: lab.PodB, source: netip.AddrPortFrom(a, 6003), target: netip.AddrPortFrom(b, 7003)},
		"ordinary, out of it": {from: lab.PodB, to: lab.PodA, source: netip.AddrPortFrom(b, 6004), target: netip.AddrPortFrom(a, 7004)},
	}
	for _, s := range streams {
		s.start(t, count)
	}
	for name, s := range streams {
		t.Run(name, func(t *testing.T) { s.check(t, count) })
	}
	for name, client := range map[string]*control.Client{"ovs": switched, "direct": direct} {
		if seen := awaitSettled(t, client); seen.Sent != count || seen.Dropped() != 0 {
			t.Errorf("the ktsnd with uplink %s sent %d and dropped %d", name, seen.Sent, seen.Dropped())
		}
	}
}
