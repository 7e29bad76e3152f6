// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// linkWorld is two nodes of two clusters, north and south, with links between them and no networks.
type linkWorld struct {
	*world
	asked string
	// keys are those of the clusters, by name, and pinned those that nodes get.
	keys   map[string]*clusterkey.Private
	pinned map[string]*clusterkey.Private
	// withheld are nodes whose keys are not published; carryKeys changes the keys of others.
	withheld  map[string]bool
	carryKeys func(*v1alpha1.LinkNodeKeys)
	announced map[string]*v1alpha1.LinkNodeKeys
	unknown   bool
	// status is that of the links.
	status v1alpha1.TSNLinkStatus
	// more are links that are written besides.
	more    func() []*v1alpha1.TSNLink
	changes map[string]int
}

var clusterOfNode = map[string]string{"node1": "north", "node2": "south"}

func newLinkWorld(t *testing.T, asked string) *linkWorld {
	t.Helper()
	w := &linkWorld{
		world: &world{t: t, now: time.Unix(1e9, 0), sent: map[[security.KeyBytes]byte]string{}}, asked: asked,
		keys: map[string]*clusterkey.Private{}, pinned: map[string]*clusterkey.Private{}, withheld: map[string]bool{}, changes: map[string]int{},
		carryKeys: func(*v1alpha1.LinkNodeKeys) {}, announced: map[string]*v1alpha1.LinkNodeKeys{}, status: admitted,
	}
	for _, cluster := range []string{"north", "south"} {
		key, err := clusterkey.New()
		testlab.Must(t, err)
		w.keys[cluster], w.pinned[cluster] = key, key
	}
	for number := range 2 {
		n := &node{w: w.world, name: fmt.Sprint("node", number+1), address: netip.AddrFrom4([4]byte{192, 0, 2, byte(number + 1)}), dir: memoryDir(t), witness: memoryDir(t), seen: memoryDir(t)}
		n.kernel, n.ktsnd = &fakeKernel{node: n, states: map[xfrm.Name]*xfrm.State{}, peers: sets.New[netip.Addr]()}, newKtsnd(n)
		w.nodes = append(w.nodes, n)
		w.start(n)
	}
	return w
}

// start starts a node's agent, again.
func (w *linkWorld) start(n *node) {
	n.start()
	n.State = func() network.Cluster {
		ownCluster := clusterOfNode[n.name]
		state := &v1alpha1.TSNNode{}
		for cluster, key := range w.pinned {
			name := cluster
			if cluster == ownCluster {
				name = ""
			}
			state.Spec.ClusterKeys = append(state.Spec.ClusterKeys, v1alpha1.ClusterKey{Cluster: name, PublicKey: key.Public().String()})
		}
		return network.Cluster{Node: state}
	}
	n.Links = func() ([]*v1alpha1.TSNLink, bool) { return w.links(), !w.unknown }
	n.LinksChanged = func() { w.changes[n.name]++ }
}

// admitted is the status of a link that the operator has admitted.
var admitted = v1alpha1.TSNLinkStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue}}}

// links are two links between the nodes, as the hub has written them.
func (w *linkWorld) links() []*v1alpha1.TSNLink {
	var all []*v1alpha1.TSNLink
	for range 2 {
		all = append(all, &v1alpha1.TSNLink{Status: w.status, Spec: v1alpha1.TSNLinkSpec{Encryption: w.asked, Client: w.end(0), Endpoint: w.end(1)}})
	}
	if w.more != nil {
		return append(w.more(), all...)
	}
	return all
}

func (w *linkWorld) end(index int) v1alpha1.LinkEnd {
	n := w.nodes[index]
	return v1alpha1.LinkEnd{Cluster: clusterOfNode[n.name], Node: n.name, NodeAddress: n.address.String(), NodeKeys: w.announced[n.name]}
}

// publish does what operators and the hub do with what nodes announce.
func (w *linkWorld) publish() {
	for _, n := range w.nodes {
		ownAnnouncement := n.Judge.Announced()
		if w.withheld[n.name] || len(ownAnnouncement.Keys) == 0 && ownAnnouncement.Unavailable == "" {
			delete(w.announced, n.name)
			continue
		}
		keys := &v1alpha1.LinkNodeKeys{Keys: ownAnnouncement.Keys, Sender: ownAnnouncement.Sender, CannotEncrypt: ownAnnouncement.Unavailable != "", Sequence: w.nextSequence()}
		w.keys[clusterOfNode[n.name]].SignLinkNode(n.name, n.address.String(), keys)
		w.carryKeys(keys)
		w.announced[n.name] = keys
	}
}

func (w *linkWorld) settle() {
	w.t.Helper()
	for range 8 {
		for _, n := range w.nodes {
			n.look()
		}
		w.publish()
		w.now = w.now.Add(time.Second)
	}
}

// state is how a node says that links to the other one are encrypted.
func (w *linkWorld) state(index int) LinkState {
	here, there := w.end(index), w.end(1-index)
	return w.nodes[index].Judge.Link(LinkMode(w.asked == v1alpha1.EncryptionRequired), &here, &there)
}

// sends tells whether kernel and ktsnd of a node have keys for the other one.
func (w *linkWorld) sends(index int) bool {
	from, to := w.nodes[index], w.nodes[1-index]
	for name, state := range from.kernel.states {
		if !state.Incoming && name.To == to.address {
			return from.kernel.peers.Has(to.address) && from.ktsnd.using(to.address) != nil
		}
	}
	return false
}

func (w *linkWorld) mustSend(what string) {
	w.t.Helper()
	for index := range w.nodes {
		if !w.sends(index) || w.state(index) != (LinkState{}) {
			w.t.Errorf("%s, %s does not send encrypted: %+v, %v", what, w.nodes[index].name, w.state(index), w.nodes[index].err)
		}
	}
}

func TestLinksBetweenClustersAreEncrypted(t *testing.T) {
	for _, asked := range []string{v1alpha1.EncryptionRequired, v1alpha1.EncryptionPreferred} {
		w := newLinkWorld(t, asked)
		if linkState := w.state(0); linkState.Unknown == "" {
			t.Errorf("before anybody looked it says %+v", linkState)
		}
		w.nodes[0].look()
		if state := w.state(0); w.sends(0) || !strings.Contains(state.Silent, "node south/node2 has not announced keys yet") {
			t.Errorf("before keys are known it says %+v", state)
		}
		w.settle()
		w.mustSend(asked)
		for _, n := range w.nodes {
			n.kernel.changes, n.ktsnd.calls, w.changes[n.name] = 0, 0, 0
			if n.look(); n.kernel.changes != 0 || n.ktsnd.calls != 0 || w.changes[n.name] != 0 {
				t.Errorf("%s: changes where nothing was to change", n.name)
			}
		}
	}
}

func TestKeysOfLinksRollWithoutLoss(t *testing.T) {
	for seed := range uint64(3) {
		random := rand.New(rand.NewPCG(seed, 7))
		w := newLinkWorld(t, v1alpha1.EncryptionRequired)
		w.settle()
		first := w.nodes[0].keys.ring.Current().Public
		for range 40 {
			n := w.nodes[random.IntN(2)]
			switch random.IntN(4) {
			case 0:
				w.start(n)
				n.look()
			case 1:
				n.ktsnd = n.ktsnd.replaced(random.IntN(2) == 0)
				n.KtsndRestarted()
				n.look()
			}
			w.now = w.now.Add(time.Duration(random.IntN(300)) * time.Second)
			w.settle()
			w.mustSend(fmt.Sprint("seed ", seed))
		}
		if w.nodes[0].keys.ring.Current().Public == first {
			t.Error("the keys have not changed")
		}
	}
}

func TestANodeThatCannotEncryptHasLinksInClearOrNone(t *testing.T) {
	for _, asked := range []string{v1alpha1.EncryptionRequired, v1alpha1.EncryptionPreferred} {
		w := newLinkWorld(t, asked)
		w.nodes[1].cannot = errors.New("it has no ESP")
		w.settle()
		for side, want := range []string{"node south/node2 cannot encrypt; the condition of that end says what it lacks", "node node2 cannot encrypt: it has no ESP"} {
			linkState := w.state(side)
			if (linkState.Refused == want) != (asked == v1alpha1.EncryptionRequired) || (linkState.Clear == want) != (asked == v1alpha1.EncryptionPreferred) || w.sends(side) {
				t.Errorf("%s, %s says %+v", asked, w.nodes[side].name, linkState)
			}
		}
	}
}

func TestALinkToARevokedNodeIsSilent(t *testing.T) {
	for name, revoke := range map[string]struct {
		how  func(*linkWorld)
		says string
	}{
		"its keys are withdrawn":      {func(w *linkWorld) { w.withheld["node2"] = true }, "node south/node2 has not announced keys yet"},
		"another key of it is pinned": {func(w *linkWorld) { w.pinned["south"] = w.keys["north"] }, "its cluster signs by SHA256:"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLinkWorld(t, v1alpha1.EncryptionPreferred)
			w.settle()
			w.mustSend("before")
			revoke.how(w)
			w.lossy = true // node2 goes on until it hears of nothing
			w.settle()
			w.now = w.now.Add(10 * time.Second)
			w.settle()
			if linkState := w.state(0); w.sends(0) || linkState.Clear != "" || !strings.Contains(linkState.Silent, revoke.says) {
				t.Errorf("it says %+v, and sends: %v", linkState, w.sends(0))
			}
		})
	}
}

// TestWhoCarriesKeysCanWithholdThemOnly has the hub change what it carries: what was trusted stays installed, and nothing else is trusted.
func TestWhoCarriesKeysCanWithholdThemOnly(t *testing.T) {
	stranger, err := clusterkey.New()
	testlab.Must(t, err)
	for name, change := range map[string]func(*v1alpha1.LinkNodeKeys){
		"another key of a node":          func(k *v1alpha1.LinkNodeKeys) { k.Keys[0].PublicKey = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" },
		"a word that it cannot":          func(k *v1alpha1.LinkNodeKeys) { k.CannotEncrypt = true },
		"no signature":                   func(k *v1alpha1.LinkNodeKeys) { k.Signature = "" },
		"another cluster's word":         func(k *v1alpha1.LinkNodeKeys) { k.ClusterKey = stranger.Public().String() },
		"a signature of somebody else's": func(k *v1alpha1.LinkNodeKeys) { stranger.SignLinkNode("node2", "192.0.2.2", k) },
		"another generation of a sender's": func(k *v1alpha1.LinkNodeKeys) {
			k.Sender = &v1alpha1.SenderGenerations{Kernel: 1 << 20, Ktsnd: 1 << 20}
		},
	} {
		t.Run(name, func(t *testing.T) {
			forge := func(keys *v1alpha1.LinkNodeKeys) {
				keys.Keys = append([]v1alpha1.NodeKey(nil), keys.Keys...)
				change(keys)
			}
			w := newLinkWorld(t, v1alpha1.EncryptionPreferred)
			w.carryKeys = forge
			w.settle()
			if linkState := w.state(0); w.sends(0) || linkState.Silent == "" || linkState.Clear != "" {
				t.Errorf("from the beginning: %+v", linkState)
			}
			w = newLinkWorld(t, v1alpha1.EncryptionPreferred)
			w.settle()
			w.carryKeys = forge
			w.settle()
			w.mustSend("later")
		})
	}
}

func TestWhatIsInForceStaysWhileLinksAreNotKnown(t *testing.T) {
	w := newLinkWorld(t, v1alpha1.EncryptionRequired)
	w.settle()
	w.unknown = true
	w.start(w.nodes[0])
	w.now = w.now.Add(time.Minute)
	w.nodes[0].look()
	if !w.nodes[0].kernel.peers.Has(w.nodes[1].address) || w.state(0).Unknown == "" {
		t.Errorf("it says %+v", w.state(0))
	}
	w.unknown = false
	w.settle()
	w.mustSend("when they are known")
}

func TestANodeWithoutEncryptedLinksHasNoKeys(t *testing.T) {
	w := newLinkWorld(t, v1alpha1.EncryptionRequired)
	w.settle()
	w.asked, w.lossy = v1alpha1.EncryptionNone, true // they change one after the other
	plugged := true
	for _, n := range w.nodes {
		n.Plugged = func() (bool, error) { return plugged, nil }
	}
	w.settle()
	for _, n := range w.nodes {
		if !n.kernel.protected {
			t.Errorf("%s lets a tunnel that is not removed yet send in clear", n.name)
		}
	}
	plugged = false
	w.settle()
	for _, n := range w.nodes {
		if ownAnnouncement := n.Judge.Announced(); len(ownAnnouncement.Keys) != 0 || len(n.kernel.states) != 0 || n.kernel.protected {
			t.Errorf("%s still has %d keys and %d states", n.name, len(ownAnnouncement.Keys), len(n.kernel.states))
		}
	}
}

func TestALinkThatIsNotAdmittedGivesANodeNoKeys(t *testing.T) {
	w := newLinkWorld(t, v1alpha1.EncryptionRequired)
	w.status = v1alpha1.TSNLinkStatus{}
	w.settle()
	for _, n := range w.nodes {
		if ownAnnouncement := n.Judge.Announced(); len(ownAnnouncement.Keys) != 0 || len(n.kernel.states) != 0 || n.kernel.protected {
			t.Errorf("%s has %d keys and %d states", n.name, len(ownAnnouncement.Keys), len(n.kernel.states))
		}
	}
	w.status = admitted
	w.settle()
	w.settle()
	w.mustSend("once admitted")
}

// TestALinkWithForgedKeysDoesNotHideOthers has a hub write, besides true links, one with keys that it made up and that are the latest.
func TestALinkWithForgedKeysDoesNotHideOthers(t *testing.T) {
	w := newLinkWorld(t, v1alpha1.EncryptionRequired)
	w.more = func() []*v1alpha1.TSNLink {
		forged := &v1alpha1.TSNLink{Status: admitted, Spec: v1alpha1.TSNLinkSpec{Encryption: w.asked, Client: w.end(0), Endpoint: w.end(1)}}
		for _, end := range []*v1alpha1.LinkEnd{&forged.Spec.Client, &forged.Spec.Endpoint} {
			end.NodeKeys = &v1alpha1.LinkNodeKeys{
				Keys:   []v1alpha1.NodeKey{{ID: "a", PublicKey: "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}, {ID: "b"}},
				Sender: &v1alpha1.SenderGenerations{Kernel: 1 << 20, Ktsnd: 1 << 20}, Signature: "AAAA",
			}
		}
		return []*v1alpha1.TSNLink{forged}
	}
	w.settle()
	w.mustSend("besides forged keys")
}

func TestOnlyTheOperatorSaysWhichNodesOfItsClusterLinksLeadTo(t *testing.T) {
	ownAddress := netip.MustParseAddr("192.0.2.1")
	link := func(maker string) *v1alpha1.TSNLink {
		return &v1alpha1.TSNLink{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LinkMakerLabel: maker}}, Status: admitted,
			Spec: v1alpha1.TSNLinkSpec{
				Encryption: v1alpha1.EncryptionRequired,
				Client:     v1alpha1.LinkEnd{Node: "node1", NodeAddress: ownAddress.String()}, Endpoint: v1alpha1.LinkEnd{Node: maker, NodeAddress: "192.0.2.2"},
			},
		}
	}
	far := FarNodes([]*v1alpha1.TSNLink{link(v1alpha1.MakerFederator), link(v1alpha1.MakerOperator)}, "node1", ownAddress)
	if len(far) != 1 || far[0].Node != v1alpha1.MakerOperator {
		t.Errorf("they lead to %+v", far)
	}
}
