// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/peers"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// peersOfA is the part of node a's agent that tells its kernel and ktsnd of peers, of which it hears what the test says.
func (l *lab) peersOfA(t *testing.T, nodes *keyedNodes, client *control.Client) *peers.Reconciler {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: topology.NodeAddressA.String()}}}}
	dir := t.TempDir()
	return &peers.Reconciler{
		Plan: &peers.FromCluster{Nodes: fake.NewClientBuilder().WithObjects(node).Build(), Node: "a", State: nodes.state, Encryption: nodes.agents[0].Judge.Look,
			EncryptedPort: overlay.EncryptedPort},
		Now: time.Now, Open: func() (peers.Overlay, error) { return overlay.Open(dir, patience) },
		Do:        func(ctx context.Context, ask func(context.Context, peers.Ktsnd) error) error { return ask(ctx, client) },
		Configure: func([]network.Network, map[string][]netip.Prefix, bool) error { return nil },
		Report: func(err error) {
			if err != nil {
				t.Error(err)
			}
		},
		LeftOut: func(int) {}, Warn: func(*corev1.Node, string, string) {}, Log: slog.New(slog.DiscardHandler),
	}
}

// TestHubCannotMoveNode has a hub change the range of a node, whose cluster has signed another, and then bring back what was said of the
// node before.
func TestHubCannotMoveNode(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startKeyless(t)
	nodes := lab.startAgentsWith(t, security.Times{Period: time.Second, Lead: 2 * time.Second})
	awaitAssociations(t, client)
	reconciler := lab.peersOfA(t, nodes, client)
	subnets := func() string {
		t.Helper()
		err := lab.NodeA.Do(func() error {
			_, err := reconciler.Reconcile(t.Context(), reconcile.Request{})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		all, err := client.Peers(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("ktsnd knows %v: %v", all, err)
		}
		return fmt.Sprint(all[0].Subnets)
	}
	signed := fmt.Sprintf("[10.42.%d.0/24]", topology.NodeAddressB.As4()[3])
	if got := subnets(); got != signed {
		t.Fatalf("ktsnd has %s behind node b, which is signed for %s", got, signed)
	}
	old := nodes.hear(func(b *v1alpha1.PeerNode) { b.IPv4 = "10.42.200.0/24" })
	if got := subnets(); got != signed {
		t.Errorf("ktsnd has %s behind node b, which is signed for %s", got, signed)
	}

	nodes.hear(func(*v1alpha1.PeerNode) {})
	announces := func(id string) bool {
		nodes.mu.Lock()
		defer nodes.mu.Unlock()
		return slices.ContainsFunc(nodes.peers[1].Keys, func(key v1alpha1.NodeKey) bool { return key.ID == id })
	}
	testlab.Eventually(t, patience, agentsLook, func() error {
		if announces(old.Keys[0].ID) {
			return errors.New("node b has its first key still")
		}
		return nil
	})
	awaitAssociations(t, client)
	nodes.hear(func(b *v1alpha1.PeerNode) { *b = *old.DeepCopy() })
	b := nodes.agents[1]
	for range 20 { // agents look in each round
		time.Sleep(agentsLook)
		all, err := client.SecurityAssociations(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, state := range all {
			if _, known := b.kernel.keyFrom(topology.NodeAddressA, b.address, state.SPI, time.Now()); !known {
				t.Fatalf("ktsnd seals by SPI %#x, for a key that node b has no longer", state.SPI)
			}
		}
	}
}
