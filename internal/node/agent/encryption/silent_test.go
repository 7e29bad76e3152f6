// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// forgottenLink adds a link to a node that answers nobody: nobody writes it any more, and it says what it said of both nodes when it was added.
func (w *linkWorld) forgottenLink() (far netip.Addr) {
	w.t.Helper()
	dir, witness := memoryDir(w.t), memoryDir(w.t)
	ring, _, err := security.Open(dir, witness, security.DefaultTimes, func() time.Time { return w.now })
	testlab.Must(w.t, err)
	ownKey := ring.Current().Public
	end := v1alpha1.LinkEnd{Cluster: "south", Node: "forgotten", NodeAddress: "192.0.2.99", NodeKeys: &v1alpha1.LinkNodeKeys{
		Keys: []v1alpha1.NodeKey{{ID: ownKey.ID(), Algorithm: v1alpha1.KeyAlgorithm, PublicKey: ownKey.String()}}, Sender: &v1alpha1.SenderGenerations{Kernel: 1, Ktsnd: 1},
	}}
	w.keys["south"].SignLinkNode(end.Node, end.NodeAddress, end.NodeKeys)
	here := w.end(0)
	w.more = func() []*v1alpha1.TSNLink {
		return []*v1alpha1.TSNLink{{Status: admitted, Spec: v1alpha1.TSNLinkSpec{Encryption: w.asked, Client: here, Endpoint: end}}}
	}
	return netip.MustParseAddr(end.NodeAddress)
}

// mustBeProtected tells that nothing for an address can leave in clear.
func (w *linkWorld) mustBeProtected(far netip.Addr) {
	w.t.Helper()
	if n := w.nodes[0]; !n.kernel.protected || !n.kernel.peers.Has(far) {
		w.t.Errorf("what is for %s may leave in clear", far)
	}
}

func TestALinkThatNobodyWritesAnyMoreKeepsNoOtherWaiting(t *testing.T) {
	for what, handedOver := range map[string]bool{"ktsnd is started anew": false, "ktsnd takes over": true} {
		t.Run(what, func(t *testing.T) {
			w := newLinkWorld(t, v1alpha1.EncryptionRequired)
			w.settle()
			far := w.forgottenLink()
			w.settle()
			n := w.nodes[0]
			if n.ktsnd.using(far) == nil {
				t.Error("it does not send to the other node before")
			}
			for restart := range 6 {
				n.ktsnd = n.ktsnd.replaced(handedOver)
				n.KtsndRestarted()
				w.settle()
				w.mustSend(fmt.Sprint("after start ", restart+1))
				w.mustBeProtected(far)
				if restart == 0 {
					w.pass(silentAfter)
					w.settle()
				}
			}
		})
	}
}

// TestOthersHearOfGenerationsWithoutASilentNode has ktsnd be replaced without an agent that looks, so that others must have heard of its whole life.
func TestOthersHearOfGenerationsWithoutASilentNode(t *testing.T) {
	w := newLinkWorld(t, v1alpha1.EncryptionRequired)
	w.settle()
	w.forgottenLink()
	w.settle()
	n := w.nodes[0]
	for range 4 {
		n.ktsnd = n.ktsnd.replaced(false)
		n.KtsndRestarted()
		w.settle()
	}
	w.now = w.now.Add(silentAfter)
	w.settle()
	if announced, sends := n.keys.generations.Ktsnd, int64(n.keys.ktsnd.Generation()); announced != sends {
		t.Errorf("others are told of generation %d of ktsnd, and it has %d", announced, sends)
	}
	for range security.KtsndLife - 1 {
		n.ktsnd = n.ktsnd.replaced(true)
		w.check()
	}
}

// TestKeysChangeBesideALinkToANodeWithoutKeys has a link that nobody writes lead to a node that never announced any.
func TestKeysChangeBesideALinkToANodeWithoutKeys(t *testing.T) {
	w := newLinkWorld(t, v1alpha1.EncryptionRequired)
	w.settle()
	here := w.end(0)
	w.more = func() []*v1alpha1.TSNLink {
		end := v1alpha1.LinkEnd{Cluster: "south", Node: "mute", NodeAddress: "192.0.2.99"}
		return []*v1alpha1.TSNLink{{Status: admitted, Spec: v1alpha1.TSNLinkSpec{Encryption: w.asked, Client: here, Endpoint: end}}}
	}
	w.settle()
	first := w.nodes[0].keys.ring.Current().Public
	for range 9 {
		w.pass(security.DefaultTimes.Lead)
		w.settle()
		w.mustSend("while keys change")
	}
	if w.nodes[0].keys.ring.Current().Public == first {
		t.Error("the node keeps its key for a node that has none")
	}
}

// While the API server is away, only generations are announced that peers accept together with those in use.
func TestNobodyIsSilentWhereNobodyHears(t *testing.T) {
	w := newWorld(t, v1alpha1.EncryptionRequired, 3)
	w.settle()
	n := w.nodes[0]
	for range 3 {
		n.ktsnd = n.ktsnd.replaced(true)
		n.KtsndRestarted()
		n.look()
		w.now = w.now.Add(silentAfter)
		n.look()
	}
	if len(n.peers.silent()) > 0 {
		t.Errorf("silent are %v", n.peers.silent())
	}
	w.lossy = true // three starts of which nobody heard
	w.settle()
	w.lossy = false
	w.settle()
	w.mustSpeak()
}

// TestANodeThatHearsAgainIsSentToAgain has one of three nodes not hear for a while at random. world.check and node.sends find what must not be.
func TestANodeThatHearsAgainIsSentToAgain(t *testing.T) {
	for seed := range uint64(3) {
		random := rand.New(rand.NewPCG(seed, 30))
		w := newLinkWorld(t, v1alpha1.EncryptionRequired)
		third := w.third()
		w.settle()
		for range 6 {
			for range random.IntN(5) {
				n := w.nodes[random.IntN(2)]
				n.ktsnd = n.ktsnd.replaced(random.IntN(2) == 0)
				n.KtsndRestarted()
				w.now = w.now.Add(time.Duration(random.IntN(120)) * time.Second)
				w.settle()
				w.mustSend(fmt.Sprintf("seed %d, beside a silent node", seed))
			}
			third.hears()
			for range 2 {
				third.node.look()
				w.settle()
			}
			third.mustSend()
			third.forgets()
		}
	}
}

// third is a node of a cluster of its own, linked to the first one. It looks, and is heard, only when the link is written.
type third struct {
	w      *linkWorld
	node   *node
	silent bool
	link   *v1alpha1.TSNLink
}

func (w *linkWorld) third() *third {
	w.t.Helper()
	key, err := clusterkey.New()
	testlab.Must(w.t, err)
	w.keys["east"], w.pinned["east"], clusterOfNode["node3"] = key, key, "east"
	n := &node{w: w.world, name: "node3", address: netip.MustParseAddr("192.0.2.3"), dir: memoryDir(w.t), witness: memoryDir(w.t)}
	n.kernel, n.ktsnd = &fakeKernel{node: n, states: map[xfrm.Name]*xfrm.State{}, peers: sets.New[netip.Addr]()}, newKtsnd(n)
	w.start(n)
	extra := &third{w: w, node: n}
	w.more = func() []*v1alpha1.TSNLink { return []*v1alpha1.TSNLink{extra.written()} }
	return extra
}

// written is the link as it was written last.
func (o *third) written() *v1alpha1.TSNLink {
	if o.link != nil && o.silent {
		return o.link
	}
	ownAnnouncement := o.node.Judge.Announced()
	there := v1alpha1.LinkEnd{Cluster: "east", Node: o.node.name, NodeAddress: o.node.address.String()}
	if len(ownAnnouncement.Keys) > 0 {
		there.NodeKeys = &v1alpha1.LinkNodeKeys{Keys: ownAnnouncement.Keys, Sender: ownAnnouncement.Sender}
		o.w.keys["east"].SignLinkNode(there.Node, there.NodeAddress, there.NodeKeys)
	}
	o.link = &v1alpha1.TSNLink{Status: admitted, Spec: v1alpha1.TSNLinkSpec{Encryption: o.w.asked, Client: o.w.end(0), Endpoint: there}}
	return o.link
}

func (o *third) forgets() { o.silent = true }

func (o *third) hears() {
	o.silent = false
	for range 6 {
		o.node.look()
		o.w.settle()
	}
}

func (o *third) mustSend() {
	o.w.t.Helper()
	for _, ends := range [][2]*node{{o.w.nodes[0], o.node}, {o.node, o.w.nodes[0]}} {
		from, to := ends[0], ends[1]
		using := from.ktsnd.using(to.address)
		if using == nil || !from.kernel.peers.Has(to.address) {
			o.w.t.Errorf("%s does not send to %s: %v", from.name, to.name, from.err)
		} else if !to.takes(xfrm.Name{From: from.address, To: to.address, SPI: using.SPI}, using.Key) {
			o.w.t.Errorf("%s sends to %s by generation %d, which that does not take", from.name, to.name, using.Generation)
		}
	}
}
