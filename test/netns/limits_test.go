// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// otherVNI is a second network on node a, and otherIdentity a pod on it.
const (
	otherVNI      = topology.VNI + 1
	otherIdentity = "other"
)

// opener opens timed sockets and sends on each.
type opener struct {
	dialogue
	t *testing.T
}

func startOpener(t *testing.T, python string, pod *topology.Namespace, environment []string) *opener {
	t.Helper()
	command := exec.Command(python, "testdata/limits.py", topology.PodAddressB.String(), strconv.Itoa(listenPort))
	command.Env = environment
	return &opener{startDialogue(t, pod, "python3", command), t}
}

// another returns how it went with one more socket.
func (o *opener) another() string {
	o.t.Helper()
	if _, err := fmt.Fprintln(o.stdin, "another"); err != nil {
		o.t.Fatal(err)
	}
	if !o.stdout.Scan() {
		o.t.Fatalf("it ended: %v", o.stdout.Err())
	}
	return o.stdout.Text()
}

// otherLimits are those that count for the other pod.
func otherLimits(t *testing.T, client *control.Client) control.PodLimits {
	t.Helper()
	pods, err := client.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		if pod.Identity == otherIdentity {
			return pod.Limits
		}
	}
	t.Fatalf("ktsnd does not know the pod, only %+v", pods)
	return control.PodLimits{}
}

func TestNetworkLimitsApplyToItsPods(t *testing.T) {
	content(t)
	python := python(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	other := *lab // with another pod's socket
	other.socket = filepath.Join(lab.dir, "other.sock")
	pod := lab.addNeighbor(t)
	ctx := t.Context()
	err := errors.Join(
		client.SocketAdd(ctx, otherIdentity, other.socket),
		client.EndpointAdd(ctx, control.Endpoint{Identity: otherIdentity, Interface: topology.PodInterface, Netns: pod.Path(), VNI: otherVNI}),
		client.PeerAdd(ctx, control.Peer{VNI: otherVNI, Address: topology.NodeAddressB, Subnets: []netip.Prefix{topology.PodSubnetB}}))
	if err != nil {
		t.Fatal(err)
	}
	ours, others := startOpener(t, python, lab.PodA, lab.preloaded(t)), startOpener(t, python, pod, other.preloaded(t))
	if first, other := ours.another(), others.another(); first != "ok" || other != "ok" {
		t.Fatalf("the first sockets: %s, %s", first, other)
	}
	before := otherLimits(t, client)

	sockets, pending := uint64(2), uint64(64)
	given := []control.NetworkLimits{{VNI: otherVNI, Limits: control.GivenLimits{Sockets: &sockets, Pending: &pending}}}
	if err := client.NetworkLimitsSet(ctx, given[0]); err != nil {
		t.Fatal(err)
	}
	want := before
	want.Sockets, want.Pending = 2, 64
	if got := otherLimits(t, client); got != want {
		t.Errorf("the pod's limits are %+v instead of %+v", got, want)
	}
	for _, answer := range []string{"ok", "ENOBUFS", "ENOBUFS"} {
		if got := ours.another(); got != "ok" {
			t.Errorf("a pod on another network: %s", got)
		}
		if got := others.another(); got != answer {
			t.Errorf("the pod with limits: %s instead of %s", got, answer)
		}
	}
	if refusals := counters(t, client).LimitRefusals; refusals == 0 {
		t.Error("no refusal was counted")
	}

	_, client = lab.takeOver(t, daemon)
	if kept, err := client.NetworkLimits(ctx); err != nil || !reflect.DeepEqual(kept, given) {
		t.Errorf("the successor has the limits %+v, %v", kept, err)
	}
	if got := otherLimits(t, client); got != want {
		t.Errorf("with the successor the pod's limits are %+v", got)
	}

	if err := client.NetworkLimitsSet(ctx, control.NetworkLimits{VNI: otherVNI}); err != nil {
		t.Fatal(err)
	}
	if got := others.another(); got != "ok" {
		t.Errorf("another socket when the limits are gone: %s", got)
	}
	if got := otherLimits(t, client); got != before {
		t.Errorf("without limits of the network the pod's are %+v instead of %+v", got, before)
	}
}
