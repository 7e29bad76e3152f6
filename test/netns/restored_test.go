// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/bench/process"
	"github.com/kubernetsn/kubernetsn/internal/bench/topology"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// ticking is a run of testdata/restored.py in pod a.
type ticking struct {
	*process.Process
	stdout *bytes.Buffer
	count  int
	heard  *net.UDPConn
}

func (l *lab) startTicking(t *testing.T, how string, count int, further ...string) *ticking {
	t.Helper()
	python := python(t)
	running := &ticking{stdout: &bytes.Buffer{}, count: count, heard: l.listenForTexts(t)}
	command := exec.Command(python, append([]string{"testdata/restored.py", how, topology.PodAddressB.String(),
		strconv.Itoa(listenPort), strconv.Itoa(count)}, further...)...)
	command.Env = l.preloaded(t)
	command.Stdout = running.stdout
	running.Process = start(t, l.PodA, "restored.py "+how, command)
	return running
}

// checkAllCame waits for its end and checks that each message came once.
func (r *ticking) checkAllCame(t *testing.T, client *control.Client) {
	t.Helper()
	if err := finish(t, r.Process); err != nil {
		t.Errorf("%v: %s", err, r.Stderr())
	}
	counted := settled(t, client)
	var want []string
	for i := range r.count {
		want = append(want, "tick"+strconv.Itoa(i))
	}
	if got := texts(t, r.heard); !slices.Equal(got, want) {
		t.Errorf("%d of %d messages came: %v", len(got), r.count, got)
	}
	if counted.Dropped() != 0 {
		t.Errorf("messages were dropped: %+v", counted)
	}
}

// What cannot be restored is that socket's loss; what comes after it in the table is restored all the same.
func TestRestartLosesOnlyTheSocketThatHasNowhereToSendAnyMore(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	vanishing := netip.MustParsePrefix("198.51.100.0/24")
	ip(t, lab.PodA, "route", "add", vanishing.String(), "dev", topology.PodInterface)
	err := client.PeerAdd(t.Context(), control.Peer{VNI: topology.VNI, Address: netip.MustParseAddr("192.0.2.99"),
		Subnets: []netip.Prefix{vanishing}})
	if err != nil {
		t.Fatal(err)
	}
	running := lab.startTicking(t, "connect", 90, vanishing.Addr().Next().String())
	served(t, client, 5)
	kill(t, daemon)
	_, client = lab.startDaemon(t)
	running.checkAllCame(t, client)
	if said := strings.TrimSpace(running.stdout.String()); said != "No route to host" {
		t.Errorf("the socket whose destination is gone: %q", said)
	}
}

// The agent tells a new ktsnd one thing after another: who sends to an address meanwhile loses nothing.
func TestRestartedDaemonLearnsOfPeersLater(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	running := lab.startTicking(t, "sendto", 50)
	served(t, client, 5)
	kill(t, daemon)
	daemon = start(t, lab.NodeA, "ktsnd", exec.Command(program(t, "ktsnd"), lab.daemonArguments()...))
	client = connect(t, daemon, lab.control)
	err := errors.Join(
		client.SocketAdd(t.Context(), identity, lab.socket),
		client.EndpointAdd(t.Context(), control.Endpoint{Identity: identity, Interface: topology.PodInterface,
			Netns: lab.PodA.Path(), VNI: topology.VNI}))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	err = client.PeerAdd(t.Context(), control.Peer{VNI: topology.VNI, Address: topology.NodeAddressB,
		Subnets: []netip.Prefix{topology.PodSubnetB}})
	if err != nil {
		t.Fatal(err)
	}
	running.checkAllCame(t, client)
}

// A ring that is handed back to a ktsnd that hardly ever runs is handed back in the end, with all that waits in it.
func TestRestartedDaemonThatHardlyRunsGetsTheRing(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	running := lab.startTicking(t, "sendto", 100)
	served(t, client, 5)
	kill(t, daemon)
	daemon, client = lab.startDaemon(t)
	stopNowAndThen(t, daemon, running.Process)
	running.checkAllCame(t, client)
}
