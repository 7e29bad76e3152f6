// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func (n *node) condition() string {
	state := n.state()
	condition, refused := n.Judge.Condition(&state.Networks[0])
	if condition == nil {
		return "none"
	}
	return fmt.Sprint(condition.Status, " ", condition.Reason, " ", condition.Message, " ", refused != "")
}

func TestNodesEncryptWhatTheySend(t *testing.T) {
	w := newWorld(t, v1alpha1.EncryptionRequired, 3)
	w.nodes[0].look()
	if w.nodes[0].speaks(w.nodes[1]) || !strings.Contains(w.nodes[0].condition(), "Unknown WaitingForKeys") {
		t.Errorf("before others know of it, node1 says %q", w.nodes[0].condition())
	}
	w.settle()
	w.mustSpeak()
	for _, n := range w.nodes {
		if n.condition() != "True AsAsked  false" || fmt.Sprint(n.tunnels) != "[{42 8472 true 1413}]" {
			t.Errorf("%s: %s, %v", n.name, n.condition(), n.tunnels)
		}
		n.kernel.changes, n.ktsnd.calls = 0, 0
		if n.look(); n.kernel.changes != 0 || n.ktsnd.calls != 0 {
			t.Errorf("%s: %d changes of the kernel and %d of ktsnd where nothing was to change", n.name, n.kernel.changes, n.ktsnd.calls)
		}
	}
}

// TestNothingIsLostAndNoKeyUsedTwice does at random what happens to nodes. world.check and node.sends find what must not be.
func TestNothingIsLostAndNoKeyUsedTwice(t *testing.T) {
	for seed := range uint64(25) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 28))
			w := newWorld(t, v1alpha1.EncryptionRequired, 3)
			w.settle()
			rolled := w.nodes[0].keys.ring.Current().Public
			for range 50 {
				n := w.nodes[random.IntN(len(w.nodes))]
				n.late = time.Duration(random.IntN(2)) * time.Second
				switch random.IntN(6) {
				case 0:
					n.start()
					n.look()
				case 1:
					n.ktsnd = n.ktsnd.replaced(true)
					n.KtsndRestarted()
					n.look()
				case 2:
					n.ktsnd = n.ktsnd.replaced(false)
					n.KtsndRestarted()
					n.look()
				case 3: // somebody flushes the kernel's states
					testlab.Must(t, n.kernel.Clear())
					n.kernel.protected = true
					n.look()
				}
				w.pass(time.Duration(random.IntN(300)) * time.Second)
				n.look()
				w.publish()
				w.nodes[random.IntN(len(w.nodes))].look()
				w.settle()
				w.mustSpeak()
			}
			if w.nodes[0].keys.ring.Current().Public == rolled {
				t.Error("the keys have not changed")
			}
		})
	}
}

// TestAKeyStaysWhileAKtsndThatTookOverSendsByIt has ktsnd replaced in the look in which the node's key changes, and nothing heard for long.
func TestAKeyStaysWhileAKtsndThatTookOverSendsByIt(t *testing.T) {
	w := newWorld(t, v1alpha1.EncryptionRequired, 2)
	w.settle()
	n := w.nodes[0]
	before := n.keys.ring.Current().Public
	announced := func() bool {
		return slices.ContainsFunc(n.keys.ring.Announced(), func(key *security.Key) bool { return key.Public == before })
	}
	for n.keys.ring.Current().Public == before {
		w.now = w.now.Add(time.Minute)
		n.ktsnd = n.ktsnd.replaced(true)
		n.KtsndRestarted()
		n.look()
		if n.keys.ring.Current().Public == before {
			w.publish()
			w.settle()
		}
	}
	for range 3 {
		w.now = w.now.Add(security.DefaultTimes.Lead)
		n.look()
	}
	if !announced() {
		t.Error("others are not told any more of a key by which ktsnd sends")
	}
	w.settle()
	w.mustSpeak()
	w.pass(security.DefaultTimes.Lead)
	w.settle()
	if announced() {
		t.Error("a key by which nobody sends is still there")
	}
}

func TestARevokedNodeIsNotHeardAnyMore(t *testing.T) {
	w := newWorld(t, v1alpha1.EncryptionRequired, 3)
	w.settle()
	revoked := w.nodes[2]
	w.nodes = w.nodes[:2]
	w.publish()
	w.nodes[0].look()
	if len(revoked.kernel.states) == 0 || !w.nodes[0].speaks(revoked) {
		t.Error("a node that may only have moved to another shard is gone at once")
	}
	w.now = w.now.Add(10 * time.Second)
	w.nodes[0].look()
	for name := range w.nodes[0].kernel.states {
		if name.From == revoked.address || name.To == revoked.address {
			t.Errorf("the kernel still has %v", name)
		}
	}
	if w.nodes[0].ktsnd.using(revoked.address) != nil || w.nodes[0].kernel.peers.Has(revoked.address) || !w.nodes[0].speaks(w.nodes[1]) {
		t.Error("ktsnd or kernel still send to it, or not to others")
	}
}

func TestAHubThatChangesWhatItCarriesIsNotBelieved(t *testing.T) {
	other, err := clusterkey.New()
	testlab.Must(t, err)
	for what, test := range map[string]struct {
		carry    func(*v1alpha1.TSNPeers)
		sentence string
	}{
		"another key of a node": {func(p *v1alpha1.TSNPeers) { p.Spec.Nodes[1].Keys[0].PublicKey = other.Public().String() }, "PeersWithoutKeys node node2: it is not signed by the key of its cluster"},
		"a node's address":      {func(p *v1alpha1.TSNPeers) { p.Spec.Nodes[1].Address = "192.0.2.66" }, "PeersWithoutKeys node node2: it is not signed"},
		"the cluster's key": {func(p *v1alpha1.TSNPeers) {
			p.Spec.ClusterKey = other.Public().String()
			for i := range p.Spec.Nodes {
				other.Sign("line", &p.Spec.Nodes[i])
			}
		}, "ClusterKeyDiffers node node1: its cluster signs by " + other.Public().Fingerprint() + ", and "},
		"that a node cannot encrypt": {func(p *v1alpha1.TSNPeers) { p.Spec.Nodes[1].CannotEncrypt = true }, "PeersWithoutKeys node node2"},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, v1alpha1.EncryptionPreferred, 2)
			w.settle()
			n := w.nodes[0]
			before := n.kernel.changes
			w.lossy = what == "a node's address"
			w.carry = test.carry
			n.look()
			if got := n.condition(); !strings.HasPrefix(got, "False "+test.sentence) {
				t.Errorf("it says %q, want %q", got, test.sentence)
			}
			if what != "a node's address" && (!n.speaks(w.nodes[1]) || n.kernel.changes != before) {
				t.Error("what was in force has not stayed")
			}
			n.start() // and knows nothing from before
			w.now = w.now.Add(time.Hour)
			n.look()
			for name := range n.kernel.states {
				if name.From.String() == "192.0.2.66" || name.To.String() == "192.0.2.66" {
					t.Errorf("it has %v", name)
				}
			}
			if fresh := newWorld(t, v1alpha1.EncryptionPreferred, 2); true {
				fresh.key, fresh.network = w.key, w.network
				fresh.settle()
				fresh.carry = test.carry
				n := fresh.add(3)
				fresh.publish()
				n.look()
				n.look()
				if n.kernel.peers.Has(fresh.nodes[1].address) || n.kernel.peers.Has(fresh.nodes[0].address) && what == "the cluster's key" {
					t.Errorf("a node that trusted no peer before sends to it")
				}
			}
		})
	}
}

func TestANodeThatCannotEncryptHasPodsOnlyWhereThatIsPreferred(t *testing.T) {
	for _, mode := range []string{v1alpha1.EncryptionPreferred, v1alpha1.EncryptionRequired} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t, mode, 3)
			cannot := w.nodes[2]
			cannot.cannot = xfrm.ErrUnavailable
			w.settle()
			preferred := mode == v1alpha1.EncryptionPreferred
			for n, want := range map[*node]string{
				w.nodes[0]: map[bool]string{true: "False EncryptionUnavailable frames of the network are sent in clear, as spec.encryption allows: node node3 cannot encrypt false", false: "True AsAsked  false"}[preferred],
				cannot:     map[bool]string{true: "False EncryptionUnavailable frames of the network are sent in clear", false: "False EncryptionUnavailable the network requires encryption, and the node cannot encrypt: the kernel has no ESP"}[preferred],
			} {
				if got := n.condition(); !strings.HasPrefix(got, want) || n == cannot && strings.HasSuffix(got, "true") == preferred {
					t.Errorf("%s says %q, want %q", n.name, got, want)
				}
				if required := n.ktsnd.modes[42] == control.EncryptionRequired; required == preferred || n.tunnels[0].Encrypted == preferred || n.tunnels[0].MTU != 1413 {
					t.Errorf("%s: ktsnd has %q, and the tunnel shall be %v", n.name, n.ktsnd.modes[42], n.tunnels)
				}
			}
			if cannot.kernel.changes != 0 || w.nodes[0].kernel.peers.Has(cannot.address) {
				t.Error("it is a peer, or was programmed")
			}
			// Somebody loads the module.
			w.lossy = true
			cannot.cannot = nil
			w.now = w.now.Add(retryTry)
			w.settle()
			w.mustSpeak()
		})
	}
}

func TestANetworkThatIsNotEncryptedAnyMoreLeavesNothing(t *testing.T) {
	w := newWorld(t, v1alpha1.EncryptionRequired, 2)
	w.settle()
	w.network.Spec.Encryption = v1alpha1.EncryptionNone
	w.lossy = true
	w.settle()
	for _, n := range w.nodes {
		left, err := os.ReadDir(n.dir)
		testlab.Must(t, err)
		if len(n.kernel.states) > 0 || n.kernel.protected || len(left) > 0 || n.ktsnd.modes[42] != control.EncryptionNone || n.tunnels[0].Encrypted ||
			n.condition() != "none" || n.Judge.Announced().Keys != nil {
			t.Errorf("%s: %d states, %v, %v, %v, %v", n.name, len(n.kernel.states), left, n.ktsnd.modes, n.tunnels, n.condition())
		}
	}
	w.network.Spec.Encryption = v1alpha1.EncryptionRequired
	w.settle()
	w.mustSpeak()
}

func TestKeysDoNotChangeWhileNobodyHears(t *testing.T) {
	w := newWorld(t, v1alpha1.EncryptionRequired, 2)
	w.network.Spec.IPv4.Part = "10.42.0.0/20"
	w.network.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionHubSeen, Status: metav1.ConditionFalse}}
	w.settle()
	first := w.nodes[0].keys.ring.Current().Public
	w.now = w.now.Add(24 * time.Hour)
	w.settle()
	if len(w.nodes[0].keys.ring.Announced()) != 1 || w.nodes[0].keys.ring.Current().Public != first {
		t.Error("it has another key while the hub is away")
	}
	w.network.Status.Conditions[0].Status = metav1.ConditionTrue
	w.settle()
	w.now = w.now.Add(10 * time.Minute)
	w.settle()
	if w.nodes[0].keys.ring.Current().Public == first {
		t.Error("it has its key from before")
	}
	w.mustSpeak()
}

func TestALostKeyIsReplaced(t *testing.T) {
	w := newWorld(t, v1alpha1.EncryptionRequired, 2)
	w.settle()
	n := w.nodes[0]
	testlab.Must(t, os.Remove(filepath.Join(n.witness, "node-keys.witness.json"))) // the machine was started again
	testlab.Must(t, n.kernel.Clear())
	n.ktsnd = newKtsnd(n)
	n.start()
	before := w.nodes[1].keys.ring.Current().Public
	w.lossy = true
	n.look()
	if n.speaks(w.nodes[1]) {
		t.Error("it sends by a key of which others have not heard")
	}
	w.settle()
	w.mustSpeak()
	if w.nodes[1].keys.ring.Current().Public != before {
		t.Error("the other node has another key, too")
	}
}

// The agent's folders are gone, and ktsnd goes on, or what it has used stands in its file.
func TestGenerationsThatWereLostAreFoundAgainInOneStep(t *testing.T) {
	for what, anew := range map[string]bool{"beside a ktsnd that goes on": false, "beside one that was started anew": true} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, v1alpha1.EncryptionRequired, 2)
			w.settle()
			n := w.nodes[0]
			for range 20 { // far from the first generations
				n.ktsnd = n.ktsnd.replaced(true)
				n.KtsndRestarted()
				w.settle()
			}
			testlab.Must(t, n.RemoveKeys())
			testlab.Must(t, n.kernel.Clear())
			if anew {
				n.ktsnd = n.ktsnd.replaced(false)
			}
			n.start()
			w.lossy = true
			w.settle()
			w.settle()
			w.mustSpeak()
			if n.ktsnd.refused != 1 {
				t.Errorf("ktsnd has refused %d lists", n.ktsnd.refused)
			}
			w.lossy = false
			w.settle()
		})
	}
}

func TestWhatIsNotKnownChangesNothing(t *testing.T) {
	w := newWorld(t, v1alpha1.EncryptionRequired, 2)
	w.settle()
	n := w.nodes[0]
	state := n.state()
	n.State = func() (none networkCluster) { none = state; none.Unknown = errors.New("not heard"); return none }
	n.kernel.changes = 0
	n.look()
	lacks := state.Networks[0]
	lacks.Shards = nil
	n.State = func() networkCluster { s := state; s.Networks = []networkJoined{lacks}; return s }
	w.now = w.now.Add(time.Minute)
	n.look()
	lacks.Object = nil
	w.now = w.now.Add(time.Minute)
	n.look()
	if n.kernel.changes != 0 || !n.speaks(w.nodes[1]) {
		t.Errorf("%d changes", n.kernel.changes)
	}
}
