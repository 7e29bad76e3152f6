// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
)

func privateKey(t *testing.T) *clusterkey.Private {
	t.Helper()
	key, err := clusterkey.New()
	must(t, err)
	return key
}

// nodeOf is a node that a cluster signs for its part of network old.
func nodeOf(key *clusterkey.Private, name, part string) v1alpha1.PeerNode {
	node := v1alpha1.PeerNode{Name: name, Address: "192.0.2.9", IPv4: strings.TrimSuffix(part, "/20") + "/24", ClusterIPv4: part, Sequence: 1}
	key.Sign("old", &node)
	return node
}

func pinsOf(entries map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kubernetsn", Name: v1alpha1.ClusterKeyPins}, Data: entries}
}

// told are the other clusters that nodes of a network trust, with their parts.
func told(status *v1alpha1.TSNNetworkStatus) string {
	var all []string
	for _, key := range status.ClusterKeys {
		if key.Cluster != "" {
			all = append(all, strings.TrimSpace(key.Cluster+" "+key.IPv4))
		}
	}
	return strings.Join(all, ", ")
}

func degraded(status *v1alpha1.TSNNetworkStatus) string {
	condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDegraded)
	return condition.Reason + ": " + condition.Message
}

// TestPinnedParts uses a cluster with a pinned key that signs nodes for parts of the network.
func TestPinnedParts(t *testing.T) {
	south, north, evil := privateKey(t), privateKey(t), privateKey(t)
	key := func(private *clusterkey.Private) string { return private.Public().String() }
	forged := nodeOf(south, "a", "10.42.16.0/20")
	forged.ClusterIPv4 = "10.42.32.0/20"
	for name, test := range map[string]struct {
		pins            map[string]string
		peers           []*v1alpha1.TSNPeers
		announced, says string
		pinned          string
	}{
		"the first one is pinned": {peers: []*v1alpha1.TSNPeers{peersFrom("south", key(south), nodeOf(south, "a", "10.42.16.0/20"))},
			announced: "south 10.42.16.0/20", pinned: key(south) + "\nold 10.42.16.0/20"},
		"it can grow": {pins: map[string]string{"south": key(south) + "\nold 10.42.16.0/20"},
			peers:     []*v1alpha1.TSNPeers{peersFrom("south", key(south), nodeOf(south, "b", "10.42.16.0/20"), nodeOf(south, "a", "10.42.16.0/19"))},
			announced: "south 10.42.16.0/19"},
		"it cannot move": {pins: map[string]string{"south": key(south) + "\nold 10.42.16.0/20"},
			peers:     []*v1alpha1.TSNPeers{peersFrom("south", key(south), nodeOf(south, "a", "10.42.32.0/20"))},
			announced: "south 10.42.16.0/20", says: "ClusterPartDiffers: cluster south signs nodes for 10.42.32.0/20 of network old, and 10.42.16.0/20 is pinned"},
		"that of a cluster that the hub withholds": {pins: map[string]string{"south": key(south) + "\nold 10.42.16.0/20"},
			peers:     []*v1alpha1.TSNPeers{peersFrom("evil", key(evil), nodeOf(evil, "n", "10.42.16.0/20"))},
			announced: "evil", says: "ClusterPartDiffers: cluster evil signs nodes for 10.42.16.0/20 of network old, and cluster south has addresses of it"},
		"a part around that of another": {peers: []*v1alpha1.TSNPeers{peersFrom("south", key(south), nodeOf(south, "a", "10.42.16.0/20")),
			peersFrom("north", key(north), nodeOf(north, "n", "10.42.32.0/20")), peersFrom("west", key(evil), nodeOf(evil, "n", "10.42.0.0/18"))},
			announced: "north 10.42.32.0/20, south 10.42.16.0/20, west", says: "cluster west signs nodes for 10.42.0.0/18 of network old, and cluster north has addresses of it"},
		"this cluster's": {peers: []*v1alpha1.TSNPeers{peersFrom("south", key(south), nodeOf(south, "a", clusterPart))},
			announced: "south", says: "and this cluster has addresses of it"},
		"outside the network": {peers: []*v1alpha1.TSNPeers{peersFrom("south", key(south), nodeOf(south, "a", "10.96.0.0/20"))},
			announced: "south", says: "cluster south signs nodes for 10.96.0.0/20, which is not in network old"},
		"a part that it has not signed": {peers: []*v1alpha1.TSNPeers{peersFrom("south", key(south), forged)}, announced: "south"},
		"of a network of the name that there was before": {pins: map[string]string{"south": key(south) + "\nold 10.7.16.0/20"},
			peers: []*v1alpha1.TSNPeers{peersFrom("south", key(south), nodeOf(south, "a", "10.42.16.0/20"))}, announced: "south 10.42.16.0/20"},
		"two that were pinned by hand": {pins: map[string]string{"south": key(south) + "\nold 10.42.16.0/20", "north": key(north) + "\nold 10.42.16.0/21"},
			peers:     []*v1alpha1.TSNPeers{peersFrom("south", key(south)), peersFrom("north", key(north))},
			announced: "north, south", says: "cluster south has 10.42.16.0/20 of network old pinned, and cluster north has addresses of it"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{pinsOf(test.pins)}
			for _, peers := range test.peers {
				objects = append(objects, peers.DeepCopy())
			}
			r := inCluster(t, encryptedNetwork(objects...)...)
			status := r.lookAt(t).Status
			if got := told(&status); got != test.announced {
				t.Errorf("nodes get %q, want %q", got, test.announced)
			}
			if got := degraded(&status); test.says == "" != strings.HasPrefix(got, "AsAsked") || !strings.Contains(got, test.says) {
				t.Errorf("got %q, want %q", got, test.says)
			}
			if got := r.pinned(t)["south"]; test.pinned != "" && got != test.pinned {
				t.Errorf("pinned is %q, want %q", got, test.pinned)
			}
		})
	}
}

// TestUnpinnedClusters uses clusters whose first key is not pinned automatically.
func TestUnpinnedClusters(t *testing.T) {
	first, second := newKey(t), newKey(t)
	full := map[string]string{}
	for i := range v1alpha1.MostClusterKeys {
		full[fmt.Sprint("c", i)] = newKey(t).String()
	}
	for name, test := range map[string]struct {
		cluster string
		pins    map[string]string
		manual  bool
		says    string
	}{
		"a name that is none":      {cluster: "a b", says: `cluster "a b": no key of it can be pinned, because it is not the name of a cluster`},
		"keys are pinned manually": {cluster: "south", manual: true, says: `cluster "south": it signs by ` + first.Fingerprint() + ", and keys are pinned manually"},
		"a key of two clusters":    {cluster: "south", pins: map[string]string{"north": first.String()}, says: "it signs by " + first.Fingerprint() + ", which is the key of cluster north"},
		"too many clusters":        {cluster: "south", pins: full, says: "is not pinned because 256 clusters are already"},
		"an entry that is no pin":  {cluster: "south", pins: map[string]string{"south": "no key"}, says: "cluster south: ConfigMap kubernetsn-cluster-keys:"},
		"a part that is none":      {cluster: "south", pins: map[string]string{"south": first.String() + "\nold 10.42"}, says: `line "old 10.42": "10.42" is not an IPv4 range`},
	} {
		t.Run(name, func(t *testing.T) {
			r := inCluster(t, encryptedNetwork(peersFrom(test.cluster, first.String()), peersFrom("other", second.String()), pinsOf(maps.Clone(test.pins)))...)
			r.shared.keys.manual = test.manual
			status := r.lookAt(t).Status
			want := "other"
			if test.manual || len(test.pins) >= v1alpha1.MostClusterKeys {
				want = ""
			}
			if got := told(&status); got != want {
				t.Errorf("nodes get %q, want %q", got, want)
			}
			if got := degraded(&status); !strings.Contains(got, test.says) {
				t.Errorf("got %q, want %q", got, test.says)
			}
			if r.shared.subnets.forNetwork("old")["a"].ipv4.String() != "10.42.64.0/24" {
				t.Error("the node has no part of the network")
			}
		})
	}
}

// TestPinsUnavailable expects all nodes to be served although pins cannot be read or written.
func TestPinsUnavailable(t *testing.T) {
	refused := errors.New("refused by the test")
	isPins := func(object any) bool {
		switch object := object.(type) {
		case *corev1.ConfigMap:
			return object.Name == v1alpha1.ClusterKeyPins
		case client.ObjectKey:
			return object.Name == v1alpha1.ClusterKeyPins
		}
		return false
	}
	for name, test := range map[string]struct {
		calls     interceptor.Funcs
		announced string
	}{
		"pins are not written": {interceptor.Funcs{
			Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
				if isPins(object) {
					return refused
				}
				return c.Update(ctx, object, options...)
			}}, "north"},
		"pins are not read": {interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				if isPins(key) {
					return refused
				}
				return c.Get(ctx, key, object, options...)
			}}, "before"},
	} {
		t.Run(name, func(t *testing.T) {
			north := newKey(t)
			objects := encryptedNetwork(foreignPeers(newKey(t).String()), peersFrom("north", north.String()), pinsOf(map[string]string{"north": north.String()}))
			for _, object := range objects {
				if network, ok := object.(*v1alpha1.TSNNetwork); ok {
					network.Status.ClusterKeys = []v1alpha1.ClusterKey{{Cluster: "before", PublicKey: "AAAA"}}
				}
			}
			r := inCluster(t, objects...)
			broken := interceptor.NewClient(r.Client.(client.WithWatch), test.calls)
			r.shared.keys = &keys{client: broken, live: broken, namespace: "kubernetsn", now: time.Now}
			status := r.lookAt(t).Status
			if got := told(&status); got != test.announced {
				t.Errorf("nodes get %q, want %q", got, test.announced)
			}
			if got := degraded(&status); !strings.HasPrefix(got, v1alpha1.ReasonClusterKeysUnavailable) || !strings.Contains(got, refused.Error()) {
				t.Errorf("got %q", got)
			}
			if r.shared.subnets.forNetwork("old")["a"].ipv4.String() != "10.42.64.0/24" {
				t.Error("the node has no part of the network")
			}
		})
	}
}

func TestAnnouncementSequence(t *testing.T) {
	key, now := privateKey(t), time.Unix(1e9, 0)
	statement := func(a *announcements, generation int64) v1alpha1.PeerNode {
		node := v1alpha1.PeerNode{Name: "a", IPv4: "10.42.1.0/24", Sender: &v1alpha1.SenderGenerations{Kernel: generation}, MTU: int32(generation)}
		a.sign(key, "old", &node)
		return node
	}
	a := newAnnouncements(func() time.Time { return now })
	first := statement(a, 1)
	now = now.Add(time.Second)
	if again := statement(a, 1); again.Sequence != first.Sequence || again.Signature != first.Signature {
		t.Errorf("the same statement has the numbers %d and %d", first.Sequence, again.Sequence)
	}
	second := statement(a, 2)
	if second.Sequence != now.UnixMicro() || key.Public().Verify("old", &second) != nil {
		t.Errorf("the next statement has the number %d at %d", second.Sequence, now.UnixMicro())
	}
	// The next leader's clock is behind.
	now = now.Add(-time.Minute)
	a = newAnnouncements(func() time.Time { return now })
	forged := second
	forged.Sequence = 1 << 62
	a.learn(key, "old", first, second, forged)
	if again := statement(a, 2); again.Sequence != second.Sequence {
		t.Errorf("the next leader gives the same statement the number %d, it had %d", again.Sequence, second.Sequence)
	}
	if third := statement(a, 3); third.Sequence != second.Sequence+1 {
		t.Errorf("the next leader gives the next statement the number %d after %d", third.Sequence, second.Sequence)
	}
}

// TestFollowRolledKey lets cluster south sign by another key than the pinned one.
func TestFollowRolledKey(t *testing.T) {
	next := func(private *clusterkey.Private) *clusterkey.Private {
		key, err := private.Succeed()
		must(t, err)
		return key
	}
	first, stranger := privateKey(t), privateKey(t)
	second := next(first)
	third := next(second)
	far := third
	for range 3 {
		far = next(far)
	}
	peers := func(key *clusterkey.Private, succession string) *v1alpha1.TSNPeers {
		peers := peersFrom("south", key.Public().String(), nodeOf(key, "a", "10.42.16.0/20"))
		peers.Spec.ClusterKeySuccession = succession
		return peers
	}
	late := peers(first, "")
	late.Name += "1"
	for name, test := range map[string]struct {
		pinned  *clusterkey.Private
		peers   []*v1alpha1.TSNPeers
		want    *clusterkey.Private
		differs bool
	}{
		"one step":                     {first, []*v1alpha1.TSNPeers{peers(second, second.Succession)}, second, false},
		"two steps":                    {first, []*v1alpha1.TSNPeers{peers(third, third.Succession)}, third, false},
		"while another object is old":  {first, []*v1alpha1.TSNPeers{late, peers(second, second.Succession)}, second, false},
		"not back":                     {second, []*v1alpha1.TSNPeers{peers(first, "")}, second, true},
		"more steps than are told of":  {first, []*v1alpha1.TSNPeers{peers(far, far.Succession)}, first, true},
		"without a word of the former": {first, []*v1alpha1.TSNPeers{peers(second, "")}, first, true},
		"signed by somebody else":      {first, []*v1alpha1.TSNPeers{peers(stranger, second.Succession)}, first, true},
		"what is no succession":        {first, []*v1alpha1.TSNPeers{peers(second, "x:y :")}, first, true},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{pinsOf(map[string]string{"south": test.pinned.Public().String() + "\nold 10.42.16.0/20"})}
			for _, peers := range test.peers {
				objects = append(objects, peers.DeepCopy())
			}
			r := inCluster(t, encryptedNetwork(objects...)...)
			r.shared.keys.manual = true
			status := r.lookAt(t).Status
			if got := r.pinned(t)["south"]; got != test.want.Public().String()+"\nold 10.42.16.0/20" || status.ClusterKeys[1].PublicKey != test.want.Public().String() {
				t.Errorf("pinned is %q, want %s", got, test.want.Public())
			}
			if got := degraded(&status); strings.HasPrefix(got, v1alpha1.ReasonClusterKeyDiffers) != test.differs {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestAnnouncementsOfDeletedNodes deletes and recreates nodes, and sets the clock back in between.
func TestAnnouncementsOfDeletedNodes(t *testing.T) {
	key, now := privateKey(t), time.Unix(1e9, 0)
	a := newAnnouncements(func() time.Time { return now })
	highest := int64(0)
	for i := range 100 {
		node := v1alpha1.PeerNode{Name: fmt.Sprint("node", i)}
		a.sign(key, "old", &node)
		highest = max(highest, node.Sequence)
		now = now.Add(time.Second)
	}
	a.forgetNodes("old", func(node string) bool { return node == "node7" })
	if len(a.last["old"]) != 1 {
		t.Errorf("%d statements are kept, want that on the node that is there", len(a.last["old"]))
	}
	now = now.Add(-time.Hour)
	again := v1alpha1.PeerNode{Name: "node99"}
	if a.sign(key, "old", &again); again.Sequence != highest+1 {
		t.Errorf("another node of the name gets the number %d after %d", again.Sequence, highest)
	}
}
