// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// claim adds an encrypted link of a node to node x of a cluster, which signs that x is where another node is, with keys of its own, and that
// these have been in use for long.
func (w *world) claim(n *node, cluster string, at *node) (stolen security.Public) {
	w.t.Helper()
	ring, _, err := security.Open(memoryDir(w.t), memoryDir(w.t), security.DefaultTimes, func() time.Time { return w.now })
	testlab.Must(w.t, err)
	key, err := clusterkey.New()
	testlab.Must(w.t, err)
	stolen = ring.Current().Public
	keys := &v1alpha1.LinkNodeKeys{Keys: []v1alpha1.NodeKey{{ID: stolen.ID(), Algorithm: v1alpha1.KeyAlgorithm, PublicKey: stolen.String()}},
		Sender: &v1alpha1.SenderGenerations{Kernel: 1 << 20, Ktsnd: 1 << 20}}
	key.SignLinkNode("x", at.address.String(), keys)
	stateBefore, linksBefore := n.State, n.Links
	n.State = func() network.Cluster {
		state := stateBefore()
		spec := &state.Node.Spec
		spec.ClusterKeys = append(spec.ClusterKeys, v1alpha1.ClusterKey{PublicKey: w.key.Public().String()},
			v1alpha1.ClusterKey{Cluster: cluster, PublicKey: key.Public().String()})
		return state
	}
	n.Links = func() (all []*v1alpha1.TSNLink, known bool) {
		if linksBefore != nil {
			all, _ = linksBefore()
		}
		ownAnnouncement := n.Judge.Announced()
		mine := &v1alpha1.LinkNodeKeys{Keys: ownAnnouncement.Keys, Sender: ownAnnouncement.Sender}
		w.key.SignLinkNode(n.name, n.address.String(), mine)
		return append(all, &v1alpha1.TSNLink{Status: admitted, Spec: v1alpha1.TSNLinkSpec{Encryption: v1alpha1.EncryptionRequired,
			Client:   v1alpha1.LinkEnd{Node: n.name, NodeAddress: n.address.String(), NodeKeys: mine},
			Endpoint: v1alpha1.LinkEnd{Cluster: cluster, Node: "x", NodeAddress: at.address.String(), NodeKeys: keys}}}), true
	}
	return stolen
}

// uses tells whether kernel or ktsnd of a node were given a key of another node.
func (n *node) uses(at *node, key security.Public) bool {
	sent, received := n.install.sent[at.address], n.install.inKtsnd[at.address]
	return sent != nil && sent.to.Key == key || received != nil && received.to.Key == key
}

func (n *node) linkState(cluster string, at *node) LinkState {
	here := v1alpha1.LinkEnd{Node: n.name, NodeAddress: n.address.String()}
	there := v1alpha1.LinkEnd{Cluster: cluster, Node: "x", NodeAddress: at.address.String()}
	return n.Judge.Link(LinkRequired, &here, &there)
}

func TestAnotherClusterDoesNotGetTheAddressOfANodeOfThisOne(t *testing.T) {
	for name, late := range map[string]bool{"of a node that is known": false, "of a node that joins later": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, v1alpha1.EncryptionRequired, 2)
			w.lossy = late
			a, b := w.nodes[0], w.nodes[1]
			if late { // the network has no other node yet
				w.nodes = w.nodes[:1]
				w.publish()
			}
			stolen := w.claim(a, "north", b)
			w.settle()
			if a.uses(b, stolen) != late {
				t.Errorf("before: node1 sends by the other cluster's key: %v", !late)
			}
			w.nodes = []*node{a, b}
			w.publish()
			a.look()
			if a.uses(b, stolen) {
				t.Error("node1 sends to node2 by the key of another cluster")
			}
			w.settle()
			w.settle()
			w.mustSpeak()
			const want = "cluster north says that it has a node at 192.0.2.2, where this cluster has one"
			if linkState := a.linkState("north", b); linkState.Silent != want {
				t.Errorf("of the link it says %+v", linkState)
			}
			if a.uses(b, stolen) || a.err != nil {
				t.Errorf("node1 sends to node2 by the key of another cluster, or says %v", a.err)
			}
		})
	}
}

func TestAnAddressThatTwoOtherClustersClaimIsNeithers(t *testing.T) {
	w := newWorld(t, v1alpha1.EncryptionRequired, 3)
	w.lossy = true
	a, at := w.nodes[0], w.nodes[2]
	w.nodes = w.nodes[:2]
	w.publish()
	first := w.claim(a, "north", at)
	w.settle()
	if !a.uses(at, first) {
		t.Fatalf("node1 does not send to the only one that claims the address: %+v", a.linkState("north", at))
	}
	second := w.claim(a, "south", at)
	a.look()
	if a.uses(at, first) || a.uses(at, second) || a.kernel.peers.Has(at.address) || a.ktsnd.using(at.address) != nil {
		t.Error("node1 still sends there")
	}
	const want = "clusters north and south both say that they have a node at 192.0.2.3 (x and x); neither is trusted"
	for _, cluster := range []string{"north", "south"} {
		if linkState := a.linkState(cluster, at); linkState.Silent != want {
			t.Errorf("of the link to %s it says %+v", cluster, linkState)
		}
	}
	if a.err == nil || !strings.Contains(a.err.Error(), want) {
		t.Errorf("the fault is not reported: %v", a.err)
	}
	w.settle()
	w.mustSpeak()
}

// TestUnsignedNodesDisputeNoAddress has somebody write a node of this cluster at the address of another cluster's node.
func TestUnsignedNodesDisputeNoAddress(t *testing.T) {
	w := newWorld(t, v1alpha1.EncryptionRequired, 2)
	a, b := w.nodes[0], w.nodes[1]
	w.nodes = w.nodes[:1] // b is north's
	w.publish()
	key := w.claim(a, "north", b)
	w.settle()
	if !a.uses(b, key) {
		t.Fatal("node1 does not send to the node of cluster north")
	}
	w.carry = func(shard *v1alpha1.TSNPeers) {
		shard.Spec.Nodes = append(shard.Spec.Nodes, v1alpha1.PeerNode{Name: "forged", Address: b.address.String(), IPv4: "10.42.9.0/24"})
	}
	w.publish()
	w.pass(20 * time.Second)
	if !a.uses(b, key) {
		t.Error("a node that the cluster has not signed takes the address of a node of cluster north")
	}
}
