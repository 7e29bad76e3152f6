// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"flag"
	"log/slog"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// lab is an informer whose watches the test imitates. test/agent tests the watches with an API server.
type lab struct {
	*Informer
	t *testing.T
	// watches are those that were begun, in order.
	watches []*objectWatch
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, Informer: &Informer{Node: "a", Log: slog.New(slog.DiscardHandler), networks: map[string]*networkWatch{}, signal: make(chan struct{}, 1)}}
	l.startWatch = func(w *objectWatch) context.CancelFunc {
		l.watches = append(l.watches, w)
		return func() {}
	}
	l.startWatch(l.ownNode())
	return l
}

// spoke tells whether the informer has said since the last time that something has changed.
func (l *lab) changed() bool {
	select {
	case <-l.signal:
		return true
	default:
		return false
	}
}

func newTSNNode(networks ...string) *v1alpha1.TSNNode {
	node := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}}
	for _, name := range networks {
		node.Spec.Networks = append(node.Spec.Networks, v1alpha1.NodeNetwork{Name: name, IPv4: "10.42.1.0/24"})
	}
	return node
}

func newNetwork() *v1alpha1.TSNNetwork {
	return &v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: "tsn"}, Spec: v1alpha1.TSNNetworkSpec{VNI: 42}}
}

func newShard(network string) *v1alpha1.TSNPeers {
	return &v1alpha1.TSNPeers{ObjectMeta: metav1.ObjectMeta{Name: "tsn-0"}, Spec: v1alpha1.TSNPeersSpec{Network: network, Nodes: []v1alpha1.PeerNode{
		{Name: "a", Address: "192.0.2.1", IPv4: "10.42.1.0/24"}, {Name: "wrong", Address: "192.0.2", IPv4: "10.42.2.0/24"}}}}
}

func TestIrrelevantChangesAreIgnored(t *testing.T) {
	for name, test := range map[string]struct {
		change func(l *lab)
		spoke  bool
	}{
		"the node's own report": {func(l *lab) {
			node := newTSNNode("tsn")
			node.Status.AgentVersion = "1"
			l.watches[0].changed(node)
		}, false},
		"pods that come and go": {func(l *lab) {
			node := newTSNNode("tsn")
			node.Spec.Networks[0].Pods = 5
			l.watches[0].changed(node)
		}, false},
		"what the operator sums up": {func(l *lab) {
			network := newNetwork()
			network.ResourceVersion, network.Status.Pods = "7", 5
			l.watches[1].changed(network)
		}, false},
		"the same list again": {func(l *lab) { l.watches[0].all([]client.Object{newTSNNode("tsn")}) }, false},
		"another part of the network": {func(l *lab) {
			node := newTSNNode("tsn")
			node.Spec.Networks[0].IPv4 = "10.42.2.0/24"
			l.watches[0].changed(node)
		}, true},
		"other gates": {func(l *lab) {
			node := newTSNNode("tsn")
			node.Spec.Gates = "tsn"
			l.watches[0].changed(node)
		}, true},
		"a schedule": {func(l *lab) {
			network := newNetwork()
			network.Status.Schedule = &v1alpha1.ScheduleRequest{Hash: "x"}
			l.watches[1].changed(network)
		}, true},
		"another network's spec": {func(l *lab) {
			network := newNetwork()
			network.Spec.MTU = 1400
			l.watches[1].changed(network)
		}, true},
		"another shard":        {func(l *lab) { l.watches[2].changed(newShard("tsn")) }, true},
		"a shard that is gone": {func(l *lab) { l.watches[2].gone(newShard("tsn")) }, true},
		"no node any more":     {func(l *lab) { l.watches[0].gone(newTSNNode("tsn")) }, true},
		"another node of the name": {func(l *lab) {
			node := newTSNNode("tsn")
			node.UID = "2"
			l.watches[0].changed(node)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.watches[0].all([]client.Object{newTSNNode("tsn")})
			l.watches[1].all([]client.Object{newNetwork()})
			l.watches[2].all([]client.Object{newShard("tsn")})
			if !l.changed() {
				t.Fatal("nothing is said of what is new")
			}
			if test.change(l); l.changed() != test.spoke {
				t.Errorf("it spoke: %v, want %v", !test.spoke, test.spoke)
			}
		})
	}
}

func TestEventOfEndedWatchIsIgnored(t *testing.T) {
	l := newLab(t)
	l.watches[0].all([]client.Object{newTSNNode("tsn")})
	past := l.watches[2]
	past.all([]client.Object{newShard("tsn")})
	node := newTSNNode()
	node.Spec.Gates = "tsn"
	l.watches[0].changed(node) // it has only the gates of the network now
	past.changed(newShard("tsn"))
	past.gone(newShard("tsn"))
	past.all([]client.Object{newShard("tsn")})
	l.watches[0].changed(newTSNNode("tsn"))
	past.changed(newShard("tsn"))
	past.gone(newShard("tsn"))
	if state := l.State(); len(state.Networks) != 1 || state.Networks[0].Shards != nil {
		t.Errorf("before the new watch has listed anything, it knows %+v", state.Networks)
	}
	if len(l.watches) != 4 {
		t.Errorf("%d watches were begun", len(l.watches))
	}
}

func TestShardOfOtherNetworkHasNoMembers(t *testing.T) {
	for network, want := range map[string]int{"tsn": 1, "other": 0} {
		l := newLab(t)
		l.watches[0].all([]client.Object{newTSNNode("tsn")})
		l.watches[2].all([]client.Object{newShard(network)})
		if shards := l.State().Networks[0].Shards; len(shards) != 1 || len(shards[0]) != want {
			t.Errorf("the shard of network %s has %v", network, shards)
		}
	}
}

func TestDeletedNetworkStaysUntilNodeLeaves(t *testing.T) {
	l := newLab(t)
	l.watches[0].all([]client.Object{newTSNNode("tsn")})
	l.watches[1].all([]client.Object{newNetwork()})
	l.watches[1].gone(newNetwork())
	l.watches[1].all(nil)
	if l.State().Networks[0].Object == nil {
		t.Error("it is forgotten")
	}
	l.watches[0].changed(newTSNNode())
	if state := l.State(); len(state.Networks) != 0 || len(l.networks) != 0 {
		t.Errorf("it is still known: %+v", state)
	}
}

// TestEncryptionMinimum has a hub turn the encryption of a network and a link off.
func TestEncryptionMinimum(t *testing.T) {
	minimum, flags := &tsnnetwork.EncryptionMinimum{}, flag.NewFlagSet("test", flag.ContinueOnError)
	minimum.AddFlags(flags)
	testlab.Must(t, flags.Parse([]string{"--encryption-minimum=Required"}))
	l := newLab(t)
	l.Minimum = minimum
	nw := &networkWatch{}
	for _, asked := range []string{v1alpha1.EncryptionRequired, v1alpha1.EncryptionNone, ""} {
		network := newNetwork()
		network.Spec.Encryption = asked
		l.setNetwork(nw, network)
		if got := nw.object.Spec.Encryption; got != v1alpha1.EncryptionRequired {
			t.Errorf("a network that asks for %q has %q", asked, got)
		}
		all := &Links{Minimum: minimum, Changed: func(types.NamespacedName) {}}
		link := &v1alpha1.TSNLink{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}, Spec: v1alpha1.TSNLinkSpec{Encryption: asked}}
		all.replace(0, []client.Object{link.DeepCopy()})
		all.set(0, client.ObjectKeyFromObject(link), link.DeepCopy())
		if got := all.Get(client.ObjectKeyFromObject(link)).Spec.Encryption; got != v1alpha1.EncryptionRequired {
			t.Errorf("a link that asks for %q has %q", asked, got)
		}
	}
}
