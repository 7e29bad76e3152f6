// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/openvswitch"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/ovs"
	"github.com/kubernetsn/kubernetsn/internal/testlab/ovsnode"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// followIn has the agent's part of a node follow, as it does in the node's network.
func (l *ovsLab) followIn(t *testing.T, follower *openvswitch.Follower, wanted *openvswitch.Wanted) error {
	t.Helper()
	return l.NodeA.Do(func() error { return follower.Follow(t.Context(), wanted) })
}

// The agent of a node of a cluster does what `ktsn ovs setup` does for one without.
func TestAgentMaintainsOpenVSwitch(t *testing.T) {
	timing(t)
	lab := newOVSNode(t)
	lab.start(t, func() (*ovsnode.Node, error) { return ovsnode.Start(t.Context(), lab.Topology) })
	fresh := lab.state(t)
	plan := ovs.Plan{Interface: topology.PhysicalInterface, VhostSocket: lab.node.VhostSocket(), DPDKExtra: lab.node.DPDKExtra()}
	follower := &openvswitch.Follower{Switch: &lab.node.Switch, Plan: plan, PrefixBits: 24, PrefixOf: ovs.PrefixOf, Now: time.Now}
	wanted := &openvswitch.Wanted{Own: topology.NodeAddressA, Networks: []uint32{topology.VNI}, Peers: []netip.Addr{topology.NodeAddressB}, Port: topology.VXLANPort}
	if err := lab.followIn(t, follower, wanted); err != nil {
		t.Fatal(err)
	}
	lab.prepareFarEnd(t)
	lab.wiring.A.Through(ovs.BridgePhysical, overlay.TunnelName(topology.VNI))
	if err := lab.wiring.AttachBoth(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, client := lab.startOVSDaemon(t)
	lab.awaitConnected(t)
	checkAllArrived(t, lab.run(t, traffic{count: 50, payloadBytes: 64, environment: lab.preloaded(t)}), 50)

	restarted := make(chan bool, 10)
	watching, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- openvswitch.Watch(watching, &lab.node.Switch, func() { restarted <- true }) }()
	if err := lab.node.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := lab.node.StartDaemon(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-restarted:
	case <-time.After(patience):
		t.Fatal("nobody saw that Open vSwitch was started anew")
	}
	if err := lab.followIn(t, follower, wanted); err != nil {
		t.Fatal(err)
	}
	lab.awaitConnected(t)
	before := counters(t, client)
	checkAllArrived(t, lab.run(t, traffic{count: 50, payloadBytes: 64, environment: lab.preloaded(t)}), 50)
	if after := awaitSettled(t, client); after.Sent-before.Sent != 50 {
		t.Errorf("ktsnd sent %d", after.Sent-before.Sent)
	}
	lab.checkAnswers(t)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	if err := lab.wiring.A.Detach(t.Context()); err != nil {
		t.Fatal(err)
	}
	wanted.Networks = nil
	if err := lab.followIn(t, follower, wanted); err != nil {
		t.Fatal(err)
	}
	if after := lab.state(t); after != fresh {
		t.Errorf("when there is no network any more, of\n%s\nis left\n%s", fresh, after)
	}
}
