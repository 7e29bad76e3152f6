// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// replay has nodes hear an older statement about one of them.
func (w *world) replay(old v1alpha1.PeerNode) {
	w.carry = func(peers *v1alpha1.TSNPeers) {
		for i := range peers.Spec.Nodes {
			if peers.Spec.Nodes[i].Name == old.Name {
				peers.Spec.Nodes[i] = *old.DeepCopy()
			}
		}
	}
}

func TestOlderStatements(t *testing.T) {
	t.Run("keys that have changed", func(t *testing.T) {
		w := newWorld(t, v1alpha1.EncryptionRequired, 2)
		w.settle()
		a, b := w.nodes[0], w.nodes[1]
		old, first := w.shard.DeepCopy().Spec.Nodes[1], b.keys.ring.Current().Public
		for range 12 {
			w.pass(10 * time.Minute)
			w.settle()
		}
		if slices.ContainsFunc(b.keys.ring.Announced(), func(key *security.Key) bool { return key.Public == first }) {
			t.Fatal("the node's key has not changed")
		}
		w.replay(old)
		for range 2 {
			if a.look(); a.uses(b, first) || !strings.Contains(a.condition(), "PeersWithoutKeys node node2: what is said of it (sequence ") {
				t.Errorf("it says %s; the old key is used: %v", a.condition(), a.uses(b, first))
			}
			w.now = w.now.Add(saveEvery)
		}
		a.start()
		if a.look(); a.uses(b, first) || !strings.Contains(a.condition(), "is older than what was accepted before") {
			t.Errorf("an agent that was restarted says %s; the old key is used: %v", a.condition(), a.uses(b, first))
		}
	})
	t.Run("a node that could not encrypt", func(t *testing.T) {
		w := newWorld(t, v1alpha1.EncryptionPreferred, 2)
		a, b := w.nodes[0], w.nodes[1]
		b.cannot = xfrm.ErrUnavailable
		w.settle()
		old := w.shard.DeepCopy().Spec.Nodes[1]
		w.lossy, b.cannot = true, nil
		w.now = w.now.Add(retryTry)
		w.settle()
		w.mustSpeak()
		w.replay(old)
		if a.look(); !a.tunnels[0].Encrypted || !a.speaks(b) {
			t.Errorf("the network is in clear: %s", a.condition())
		}
	})
	t.Run("while the network is not encrypted for a moment", func(t *testing.T) {
		w := newWorld(t, v1alpha1.EncryptionRequired, 2)
		w.settle()
		old := w.shard.DeepCopy().Spec.Nodes[1]
		w.publish()
		w.lossy = true
		w.now = w.now.Add(saveEvery)
		w.settle()
		for _, encryption := range []string{v1alpha1.EncryptionNone, v1alpha1.EncryptionRequired} {
			w.network.Spec.Encryption = encryption
			w.replay(old)
			w.nodes[0].look()
		}
		if got := w.nodes[0].condition(); !strings.Contains(got, "is older than what was accepted before") {
			t.Errorf("it says %s", got)
		}
	})
	t.Run("after the node left the network for a moment", func(t *testing.T) {
		w := newWorld(t, v1alpha1.EncryptionRequired, 2)
		w.settle()
		a, old := w.nodes[0], w.shard.DeepCopy().Spec.Nodes[1]
		w.publish()
		w.lossy = true
		w.now = w.now.Add(saveEvery)
		w.settle()
		state := a.State
		a.State = func() network.Cluster { return network.Cluster{Node: &v1alpha1.TSNNode{}} }
		a.look()
		a.State = state
		w.replay(old)
		if a.look(); !strings.Contains(a.condition(), "is older than what was accepted before") {
			t.Errorf("it says %s", a.condition())
		}
	})
}

// TestRangesOfOtherClusters has clusters sign nodes for ranges of addresses.
func TestRangesOfOtherClusters(t *testing.T) {
	const part = "10.42.16.0/20"
	for name, test := range map[string]struct {
		ipv4, pinned string
		carry        func(*v1alpha1.PeerNode)
		says         string
		trusted      bool
	}{
		"in its own part":         {ipv4: "10.42.17.0/24", pinned: part, trusted: true},
		"in a third one's":        {ipv4: "10.42.33.0/24", pinned: part, says: "its 10.42.33.0/24 is not in cluster south's part of the network, " + part},
		"where no part is pinned": {ipv4: "10.42.17.0/24", says: "the operator has not pinned cluster south's part of the network yet"},
		"in this cluster's":       {ipv4: "10.42.3.0/24", pinned: "10.42.0.0/18", says: "its 10.42.3.0/24 is in this cluster's part of network line"},
		"changed on the way": {ipv4: "10.42.17.0/24", pinned: part, carry: func(n *v1alpha1.PeerNode) { n.IPv4 = "10.42.18.0/24" },
			says: clusterkey.ErrSignature.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, v1alpha1.EncryptionRequired, 1)
			w.lossy = true
			w.network.Spec.IPv4.Part = "10.42.0.0/20"
			key, err := clusterkey.New()
			testlab.Must(t, err)
			w.network.Status.ClusterKeys = append(w.network.Status.ClusterKeys, v1alpha1.ClusterKey{Cluster: "south", PublicKey: key.Public().String(), IPv4: test.pinned})
			ring, _, err := security.Open(memoryDir(t), memoryDir(t), security.DefaultTimes, func() time.Time { return w.now })
			testlab.Must(t, err)
			public := ring.Current().Public
			far := v1alpha1.PeerNode{Name: "x", Address: "192.0.2.9", IPv4: test.ipv4, ClusterIPv4: test.pinned, Sequence: 1,
				Keys: []v1alpha1.NodeKey{{ID: public.ID(), Algorithm: v1alpha1.KeyAlgorithm, PublicKey: public.String()}}, Sender: &v1alpha1.SenderGenerations{Kernel: 1, Ktsnd: 1}}
			key.Sign("line", &far)
			if test.carry != nil {
				test.carry(&far)
			}
			a := w.nodes[0]
			a.more = &v1alpha1.TSNPeers{Spec: v1alpha1.TSNPeersSpec{Network: "line", Cluster: "south", ClusterKey: key.Public().String(), Nodes: []v1alpha1.PeerNode{far}}}
			w.settle()
			state := a.state()
			trusted := a.Judge.Look(&state.Networks[0]).Peers[netip.MustParseAddr("192.0.2.9")]
			if (trusted != nil) != test.trusted || trusted != nil && trusted.Subnets[0].String() != test.ipv4 {
				t.Errorf("it is trusted as %+v", trusted)
			}
			if got := a.condition(); test.says != "" && !strings.Contains(got, test.says) {
				t.Errorf("it says %s, want %s", got, test.says)
			}
		})
	}
}

// TestSignedRangesStay has a hub move the ranges of a node of another cluster that was trusted before.
func TestSignedRangesStay(t *testing.T) {
	w := newWorld(t, v1alpha1.EncryptionRequired, 2)
	w.settle()
	for what, change := range map[string]func(*v1alpha1.PeerNode){
		"another range":    func(n *v1alpha1.PeerNode) { n.IPv4 = "10.42.7.0/24" },
		"and no signature": func(n *v1alpha1.PeerNode) { n.IPv4, n.Signature = "10.42.7.0/24", "" },
	} {
		w.carry = func(peers *v1alpha1.TSNPeers) { change(&peers.Spec.Nodes[1]) }
		state := w.nodes[0].state()
		trusted := w.nodes[0].Judge.Look(&state.Networks[0]).Peers[w.nodes[1].address]
		if trusted == nil || trusted.Subnets[0].String() != "10.42.2.0/24" {
			t.Errorf("with %s it is trusted as %+v", what, trusted)
		}
	}
}

// TestTheClustersKeyIsRolled has nodes hear of the new key before and after what is signed by it: nothing is lost.
func TestTheClustersKeyIsRolled(t *testing.T) {
	for name, keyFirst := range map[string]bool{"the key comes first": true, "the statements come first": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, v1alpha1.EncryptionRequired, 2)
			w.settle()
			next, err := w.key.Succeed()
			testlab.Must(t, err)
			key := func() { w.network.Status.ClusterKeys = []v1alpha1.ClusterKey{{PublicKey: next.Public().String()}} }
			statements := func() {
				w.key = next
				w.publish()
			}
			steps := []func(){key, statements}
			if !keyFirst {
				slices.Reverse(steps)
			}
			old := w.shard.DeepCopy().Spec.Nodes[1]
			for _, step := range steps {
				step()
				for range 2 {
					w.now = w.now.Add(time.Second)
					for _, n := range w.nodes {
						n.look()
					}
					w.mustSpeak()
				}
			}
			w.settle()
			w.mustSpeak()
			if got := w.nodes[0].condition(); !strings.HasPrefix(got, "True ") {
				t.Errorf("it says %s", got)
			}
			w.replay(old)
			if w.nodes[0].look(); !strings.Contains(w.nodes[0].condition(), clusterkey.ErrSignature.Error()) {
				t.Errorf("of what the former key has signed it says %s", w.nodes[0].condition())
			}
		})
	}
}

// TestPeersStayWhileAClustersKeyIsRolled has a Judge learn of the successor of a cluster's key before and after a statement by it.
func TestPeersStayWhileAClustersKeyIsRolled(t *testing.T) {
	former, err := clusterkey.New()
	testlab.Must(t, err)
	next, err := former.Succeed()
	testlab.Must(t, err)
	other, err := clusterkey.New()
	testlab.Must(t, err)
	peers := func(cluster, name, address string, key *clusterkey.Private) []network.Member {
		entry := v1alpha1.PeerNode{Name: name, Address: address, IPv4: "10.42.17.0/24", ClusterIPv4: "10.42.16.0/20", Sequence: 1,
			Keys: []v1alpha1.NodeKey{{PublicKey: security.Public{1}.String()}}}
		key.Sign("line", &entry)
		object := &v1alpha1.TSNPeers{Spec: v1alpha1.TSNPeersSpec{Network: "line", Cluster: cluster, ClusterKey: key.Public().String(), Nodes: []v1alpha1.PeerNode{entry}}}
		if cluster != "" {
			object.Spec.ClusterKeySuccession = key.Succession
		}
		members, faults := network.MembersOf(object)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		return members
	}
	type step struct{ pinned, signer *clusterkey.Private }
	for name, test := range map[string]struct {
		cluster string
		steps   []step
		stays   bool
	}{
		"status first":                 {"", []step{{next, former}, {next, next}}, true},
		"statements first":             {"", []step{{former, next}, {next, next}}, true},
		"a shard of another cluster":   {"south", []step{{next, former}, {next, next}}, true},
		"a key that it has not signed": {"", []step{{other, former}}, false},
		"its predecessor":              {"", []step{{next, next}, {former, next}}, false},
		"a key of another cluster":     {"south", []step{{other, former}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			judge := &Judge{Node: "node1"}
			judge.SetUnavailable(nil)
			for i, step := range append([]step{{former, former}}, test.steps...) {
				key := v1alpha1.ClusterKey{Cluster: test.cluster, PublicKey: step.pinned.Public().String(), IPv4: "10.42.16.0/20"}
				part := ""
				shards := [][]network.Member{peers(test.cluster, "a", "192.0.2.9", step.signer)}
				if test.cluster == "" {
					key.Succession = step.pinned.Succession
				} else { // another shard has arrived
					part = "10.42.0.0/20"
					shards = append(shards, peers(test.cluster, "b", "192.0.2.10", step.pinned))
				}
				verdict := judge.Look(&network.Joined{Part: v1alpha1.NodeNetwork{Name: "line"}, Shards: shards, Object: &v1alpha1.TSNNetwork{
					Spec:   v1alpha1.TSNNetworkSpec{Encryption: v1alpha1.EncryptionRequired, IPv4: v1alpha1.Range4{CIDR: "10.42.0.0/16", Part: part, NodePrefixLength: 24}},
					Status: v1alpha1.TSNNetworkStatus{ClusterKeys: []v1alpha1.ClusterKey{key}},
				}})
				want := test.stays || i < len(test.steps)
				if has := verdict.Peers[netip.MustParseAddr("192.0.2.9")] != nil; has != want {
					t.Errorf("step %d: the node is a peer: %v, want %v; %v", i, has, want, verdict.Faults)
				}
			}
		})
	}
}

// TestOlderStatementsByNewLinks has a hub delete the last link to a node, and make it again with an older statement about the node.
func TestOlderStatementsByNewLinks(t *testing.T) {
	w := newLinkWorld(t, v1alpha1.EncryptionRequired)
	w.settle()
	w.mustSend("before")
	a, b := w.nodes[0], w.nodes[1]
	old, first := w.announced[b.name].DeepCopy(), b.keys.ring.Current().Public
	for range 12 {
		w.pass(10 * time.Minute)
		w.settle()
	}
	w.lossy = true
	links := a.Links
	for name, restart := range map[string]bool{"running": false, "restarted": true} {
		a.Links = func() ([]*v1alpha1.TSNLink, bool) { return nil, true }
		w.now = w.now.Add(saveEvery)
		a.look()
		w.now = w.now.Add(saveEvery)
		a.look()
		if restart {
			w.start(a)
		}
		newest := w.announced[b.name]
		w.announced[b.name] = old
		a.Links = links
		if a.look(); a.uses(b, first) || !strings.Contains(w.state(0).Silent, "is older than what was accepted before") {
			t.Errorf("%s, it says %+v; the old key is used: %v", name, w.state(0), a.uses(b, first))
		}
		w.announced[b.name] = newest
		if a.look(); strings.Contains(w.state(0).Silent, "is older") {
			t.Errorf("%s, of the newest statement it says %+v", name, w.state(0))
		}
	}
}

// seenWorld is a Judge that has accepted statements.
type seenWorld struct {
	*testing.T
	*Judge
}

func newSeenWorld(t *testing.T) *seenWorld {
	return &seenWorld{t, &Judge{Node: "node1", seen: map[string]security.Seen{}}}
}

func (w *seenWorld) add(good, cluster, node string, sequence int64) string {
	at := goodKey{good, cluster, node}
	w.accept(at, &Trusted{}, sequence)
	return at.String()
}

// addPair adds the statements about the nodes of a pair with links.
func (w *seenWorld) addPair(cluster, node string, sequence int64) []string {
	good := linkPrefix + cluster + "/" + node
	return []string{w.add(good, cluster, node, sequence), w.add(good, "", w.Node, 1)}
}

// mustHave fails unless all of some statements are kept, and as many as wanted.
func (w *seenWorld) mustHave(kept []string, count int) {
	w.Helper()
	for _, at := range kept {
		if _, exists := w.seen[at]; !exists {
			w.Errorf("the statement about %s is gone", at)
		}
	}
	if len(w.seen) != count || len(w.good) > count {
		w.Errorf("%d statements are kept, and %d nodes, want %d", len(w.seen), len(w.good), count)
	}
}

// lineWith is what an agent knows of a network.
func lineWith(shards ...[]network.Member) *network.Cluster {
	return &network.Cluster{Node: &v1alpha1.TSNNode{}, Networks: []network.Joined{{Part: v1alpha1.NodeNetwork{Name: "line"}, Shards: shards}}}
}

// TestStatementsAboutAbsentNodesAreBounded has one cluster name very many nodes: the statements of others stay.
func TestStatementsAboutAbsentNodesAreBounded(t *testing.T) {
	const many = 3 * maxAbsentNodes
	t.Run("nodes of a network", func(t *testing.T) {
		w := newSeenWorld(t)
		kept := []string{w.add("line", "", "gone", 1), w.add("line", "", "node2", 1)}
		for i := range many {
			kept = append(kept, w.add("line", "evil", fmt.Sprint("n", i), int64(i)))
		}
		kept = append(kept[:3], kept[len(kept)-maxAbsentNodes:]...)
		w.forget(lineWith([]network.Member{{Node: "node2"}, {Cluster: "evil", Node: "n0"}}), nil)
		w.mustHave(kept, 3+maxAbsentNodes)
	})
	t.Run("nodes at links", func(t *testing.T) {
		w := newSeenWorld(t)
		kept := w.addPair("south", "x", 1)
		for i := range many {
			kept = append(kept, w.addPair("evil", fmt.Sprint("n", i), 1<<40+int64(i))...)
		}
		kept = append(kept[:2], kept[len(kept)-2*maxAbsentNodes:]...)
		w.forget(lineWith(nil), nil)
		w.mustHave(kept, 2+2*maxAbsentNodes)
	})
	t.Run("as many clusters as can be pinned", func(t *testing.T) {
		w := newSeenWorld(t)
		kept := append(w.addPair("", "x", 1), w.addPair("south", "x", 1)...)
		for i := range v1alpha1.MostClusterKeys - 1 {
			w.addPair(fmt.Sprint("c", i), "x", 1<<50+int64(i))
		}
		w.forget(lineWith(nil), nil)
		w.mustHave(kept, 2*(1+v1alpha1.MostClusterKeys))
	})
	t.Run("clusters that are not pinned any more", func(t *testing.T) {
		w := newSeenWorld(t)
		kept := append(w.addPair("", "x", 1), w.addPair("south", "x", 1)...)
		for i := range 2 * maxAbsentClusters {
			w.addPair(fmt.Sprint("c", i), "x", 1<<50+int64(i))
		}
		state := lineWith(nil)
		state.Node.Spec.ClusterKeys = []v1alpha1.ClusterKey{{}, {Cluster: "south"}}
		w.forget(state, nil)
		w.mustHave(kept, 2*maxAbsentClusters)
	})
	t.Run("networks that the node has left", func(t *testing.T) {
		w := newSeenWorld(t)
		var kept []string
		for i := range 2 * maxLeftNetworks {
			kept = append(kept, w.add(fmt.Sprint("net", i), "", "x", int64(i)))
		}
		w.forget(lineWith(nil), nil)
		w.mustHave(kept[maxLeftNetworks:], maxLeftNetworks)
	})
	t.Run("a network whose nodes are not known yet", func(t *testing.T) {
		w := newSeenWorld(t)
		for i := range many {
			w.add("line", "south", fmt.Sprint("n", i), int64(i))
		}
		w.forget(lineWith(), nil)
		w.mustHave(nil, many)
	})
}
