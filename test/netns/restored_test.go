// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// ticking is a run of testdata/restored.py in pod a.
type ticking struct {
	dialogue
	listener *net.UDPConn
}

func (l *lab) startTicking(t *testing.T, how string, further ...string) *ticking {
	t.Helper()
	listener := l.listenForTexts(t)
	command := exec.Command(python(t), append([]string{"testdata/restored.py", how, topology.PodAddressB.String(),
		strconv.Itoa(listenPort)}, further...)...)
	command.Env = l.preloaded(t)
	return &ticking{startDialogue(t, l.PodA, "restored.py "+how, command), listener}
}

// checkAllCame has it end when ktsnd has taken some of its messages, and checks that each came once.
//
// A program that ends before ktsnd has found it takes what waits along; on a busy machine a start of ktsnd takes seconds.
func (r *ticking) checkAllCame(t *testing.T, client *control.Client) {
	t.Helper()
	awaitTaken(t, client, 20)
	r.ends(t)
	counted := awaitSettled(t, client)
	text := r.line(t)
	count, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("it said %q", text)
	}
	var want []string
	for i := range count {
		want = append(want, "tick"+strconv.Itoa(i))
	}
	if got := texts(t, r.listener); !slices.Equal(got, want) {
		t.Errorf("%d of %d messages came: %v", len(got), count, got)
	}
	if counted.Dropped() != 0 {
		t.Errorf("messages were dropped: %+v", counted)
	}
}

// line is the next of what it prints.
func (r *ticking) line(t *testing.T) string {
	t.Helper()
	if !r.stdout.Scan() {
		t.Fatalf("it says nothing: %v; on stderr %s", r.stdout.Err(), r.Stderr())
	}
	return r.stdout.Text()
}

// What cannot be restored is that socket's loss; what comes after it in the table is restored all the same.
func TestRestartLosesOnlySocketsWithoutRoute(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	vanishing := netip.MustParsePrefix("198.51.100.0/24")
	ip(t, lab.PodA, "route", "add", vanishing.String(), "dev", topology.PodInterface)
	err := client.PeerAdd(t.Context(), control.Peer{VNI: topology.VNI, Address: netip.MustParseAddr("192.0.2.99"),
		Subnets: []netip.Prefix{vanishing}})
	if err != nil {
		t.Fatal(err)
	}
	running := lab.startTicking(t, "connect", vanishing.Addr().Next().String())
	awaitTaken(t, client, 5)
	kill(t, daemon)
	_, client = lab.startDaemon(t)
	running.checkAllCame(t, client)
	if text := running.line(t); text != "No route to host" {
		t.Errorf("the socket whose destination is gone: %q", text)
	}
}

// The agent tells a new ktsnd one thing after another: who sends to an address meanwhile loses nothing.
func TestRestartedDaemonLearnsOfPeersLater(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	running := lab.startTicking(t, "sendto")
	awaitTaken(t, client, 5)
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
func TestSlowRestartedDaemonGetsRing(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	running := lab.startTicking(t, "sendto")
	awaitTaken(t, client, 5)
	kill(t, daemon)
	daemon, client = lab.startDaemon(t)
	within := time.AfterFunc(5*time.Second, func() { _ = running.stdin.Close() })
	defer within.Stop()
	stopNowAndThen(t, daemon, running.Process)
	running.checkAllCame(t, client)
}
