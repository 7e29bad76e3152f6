// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"flag"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// encryptedNetwork is one of two clusters, and node a has said its key.
func encryptedNetwork(more ...client.Object) []client.Object {
	network := stretchedNetwork()
	network.Spec.Encryption = v1alpha1.EncryptionRequired
	all := servingNode(1413)
	all[1].(*v1alpha1.TSNNode).Status.Keys = []v1alpha1.NodeKey{{ID: "one", Algorithm: v1alpha1.KeyAlgorithm, PublicKey: "AAAA"}}
	all[1].(*v1alpha1.TSNNode).Status.Sender = &v1alpha1.SenderGenerations{Kernel: 1, Ktsnd: 4}
	return append(append(all, network), more...)
}

// foreignPeers say that south signs by a key.
func foreignPeers(key string) *v1alpha1.TSNPeers { return peersFrom("south", key) }

// peersFrom say that a cluster signs by a key.
func peersFrom(cluster, key string, nodes ...v1alpha1.PeerNode) *v1alpha1.TSNPeers {
	return &v1alpha1.TSNPeers{ObjectMeta: metav1.ObjectMeta{Name: "old." + strings.ReplaceAll(cluster, " ", "") + "-0", Labels: map[string]string{v1alpha1.NetworkLabel: "old"}},
		Spec: v1alpha1.TSNPeersSpec{Network: "old", Cluster: cluster, ClusterKey: key, Nodes: nodes}}
}

func newKey(t *testing.T) clusterkey.Public {
	t.Helper()
	key, err := clusterkey.New()
	must(t, err)
	return key.Public()
}

// pinned are the pins of the cluster.
func (r *Networks) pinned(t *testing.T) map[string]string {
	t.Helper()
	var pins corev1.ConfigMap
	must(t, client.IgnoreNotFound(r.Client.Get(t.Context(), client.ObjectKey{Namespace: "kubernetsn", Name: v1alpha1.ClusterKeyPins}, &pins)))
	return pins.Data
}

func TestPeersAreSigned(t *testing.T) {
	r := inCluster(t, encryptedNetwork()...)
	status := r.lookAt(t).Status
	if len(status.ClusterKeys) != 1 || status.ClusterKeys[0].Cluster != "" || len(status.Peers) != 1 {
		t.Fatalf("nodes trust %v, and the hub reads %v", status.ClusterKeys, status.Peers)
	}
	public, err := clusterkey.Parse(status.ClusterKeys[0].PublicKey)
	must(t, err)
	if err := public.Verify("old", &status.Peers[0]); err != nil || len(status.Peers[0].Keys) != 1 || status.Peers[0].Sender.Ktsnd != 4 {
		t.Errorf("%v: %v", status.Peers[0], err)
	}
	writer := &Peers{Client: r.Client, shared: r.shared, pace: newPace(time.Now)}
	must(t, writer.reconcile(t.Context(), "old"))
	var peers v1alpha1.TSNPeers
	must(t, r.Client.Get(t.Context(), client.ObjectKey{Name: "old-0"}, &peers))
	if err := public.Verify("old", &peers.Spec.Nodes[0]); err != nil || peers.Spec.ClusterKey != public.String() {
		t.Errorf("%v: %v", peers.Spec, err)
	}
	// Another operator goes on with the key.
	r.shared.keys = &keys{client: r.Client, live: r.Client, namespace: "kubernetsn", now: time.Now}
	again, err := r.shared.keys.signingKey(t.Context(), get(t, r))
	if err != nil || again.Public() != public {
		t.Errorf("the next operator has another key: %v", err)
	}
}

func TestNoKeyWithoutEncryption(t *testing.T) {
	network := stretchedNetwork()
	status := inCluster(t, append(servingNode(1450), network, foreignPeers(newKey(t).String()))...).lookAt(t).Status
	if status.ClusterKeys != nil || status.Peers[0].Signature != "" {
		t.Errorf("%v, %v", status.ClusterKeys, status.Peers)
	}
}

func TestFirstKeyIsPinned(t *testing.T) {
	first, second := newKey(t), newKey(t)
	r := inCluster(t, encryptedNetwork(foreignPeers(first.String()))...)
	status := r.lookAt(t).Status
	if got := r.pinned(t)["south"]; got != first.String() || len(status.ClusterKeys) != 2 || status.ClusterKeys[1].PublicKey != first.String() {
		t.Fatalf("pinned is %q, nodes believe %v", got, status.ClusterKeys)
	}
	peers := foreignPeers(second.String())
	must(t, r.Client.Get(t.Context(), client.ObjectKeyFromObject(peers), peers))
	peers.Spec.ClusterKey = second.String()
	must(t, r.Client.Update(t.Context(), peers))
	r.pace = newPace(time.Now)
	status = r.lookAt(t).Status
	condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDegraded)
	if condition.Reason != v1alpha1.ReasonClusterKeyDiffers || !strings.Contains(condition.Message, "cluster south: its cluster signs by "+second.Fingerprint()+", and "+first.Fingerprint()+" is pinned") {
		t.Errorf("Degraded is %v", condition)
	}
	if got := r.pinned(t)["south"]; got != first.String() || status.ClusterKeys[1].PublicKey != first.String() {
		t.Errorf("pinned is %q, nodes believe %v", got, status.ClusterKeys)
	}
	// The administrator believes the new one.
	pins := &corev1.ConfigMap{}
	must(t, r.Client.Get(t.Context(), client.ObjectKey{Namespace: "kubernetsn", Name: v1alpha1.ClusterKeyPins}, pins))
	delete(pins.Data, "south")
	must(t, r.Client.Update(t.Context(), pins))
	r.pace = newPace(time.Now)
	if status = r.lookAt(t).Status; status.ClusterKeys[1].PublicKey != second.String() {
		t.Errorf("nodes trust %v", status.ClusterKeys)
	}
}

func TestPinnedKeyIsKept(t *testing.T) {
	given, says := newKey(t), newKey(t)
	pins := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kubernetsn", Name: v1alpha1.ClusterKeyPins}, Data: map[string]string{"south": given.String()}}
	r := inCluster(t, encryptedNetwork(foreignPeers(says.String()), pins)...)
	status := r.lookAt(t).Status
	if status.ClusterKeys[1].PublicKey != given.String() || meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDegraded).Reason != v1alpha1.ReasonClusterKeyDiffers {
		t.Errorf("nodes trust %v", status.ClusterKeys)
	}
}

func TestDamagedKeyIsKept(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kubernetsn", Name: v1alpha1.ClusterKeySecret}, Data: map[string][]byte{v1alpha1.ClusterKeyField: []byte("short")}}
	r := inCluster(t, encryptedNetwork(secret)...)
	if _, err := r.shared.keys.signingKey(t.Context(), get(t, r)); err == nil || !strings.Contains(err.Error(), "field ed25519-seed: the cluster's key has 5 bytes") {
		t.Error(err)
	}
}

// minimum is what the operator was started with.
func minimum(t *testing.T, arguments ...string) *tsnnetwork.EncryptionMinimum {
	t.Helper()
	minimum, flags := &tsnnetwork.EncryptionMinimum{}, flag.NewFlagSet("test", flag.ContinueOnError)
	minimum.AddFlags(flags)
	must(t, flags.Parse(arguments))
	return minimum
}

// TestEncryptionMinimum uses a hub that turns off the encryption of a network and creates an unencrypted link.
func TestEncryptionMinimum(t *testing.T) {
	objects := encryptedNetwork(foreignPeers(newKey(t).String()))
	r := inCluster(t, objects...)
	r.shared.minimum = minimum(t, "--encryption-minimum=Required")
	before := r.lookAt(t).Status
	lowered := get(t, r)
	lowered.Spec.Encryption = v1alpha1.EncryptionNone
	must(t, r.Client.Update(t.Context(), lowered))
	r.pace = newPace(time.Now)
	network := r.lookAt(t)
	if got := degraded(&network.Status); !strings.Contains(got, "EncryptionBelowMinimum: spec.encryption of TSNNetwork old is None, and the minimum of this cluster for it is Required") {
		t.Errorf("got %q", got)
	}
	if !equality.Semantic.DeepEqual(network.Status.ClusterKeys, before.ClusterKeys) || network.Spec.Encryption != v1alpha1.EncryptionNone {
		t.Errorf("nodes get %v, before of %v; the spec has %s", network.Status.ClusterKeys, before.ClusterKeys, network.Spec.Encryption)
	}
	writer := &Peers{Client: r.Client, shared: r.shared, pace: newPace(time.Now)}
	must(t, writer.reconcile(t.Context(), "old"))
	var peers v1alpha1.TSNPeers
	must(t, r.Client.Get(t.Context(), client.ObjectKey{Name: "old-0"}, &peers))
	if peers.Spec.Nodes[0].Signature == "" || peers.Spec.ClusterKey == "" {
		t.Errorf("agents get %+v", peers.Spec)
	}
}

// rolled is the network after the administrator asked for another key of the cluster, and its status.
func (r *Networks) rolled(t *testing.T, asked string) *v1alpha1.TSNNetworkStatus {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kubernetsn", Name: v1alpha1.ClusterKeySecret}}
	must(t, r.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
	secret.Annotations = map[string]string{v1alpha1.RollAnnotation: asked}
	must(t, r.Client.Update(t.Context(), secret))
	r.shared.keys.readAt = time.Time{}
	r.pace = newPace(time.Now)
	return &r.lookAt(t).Status
}

func TestRollClusterKey(t *testing.T) {
	r := inCluster(t, encryptedNetwork()...)
	first := r.lookAt(t).Status.ClusterKeys[0]
	second := r.rolled(t, "one").ClusterKeys[0]
	if again := r.rolled(t, "one").ClusterKeys[0]; second.PublicKey == first.PublicKey || again != second {
		t.Fatalf("asked once, the keys are %s, %s, and %s", first.PublicKey, second.PublicKey, again.PublicKey)
	}
	third := r.rolled(t, "two").ClusterKeys[0]
	public := map[string]clusterkey.Public{}
	for _, k := range []v1alpha1.ClusterKey{first, second, third} {
		key, err := clusterkey.Parse(k.PublicKey)
		must(t, err)
		public[k.PublicKey] = key
	}
	if !public[third.PublicKey].Succeeds(public[first.PublicKey], third.Succession) || public[first.PublicKey].Succeeds(public[third.PublicKey], third.Succession) {
		t.Errorf("the last key's succession is %q", third.Succession)
	}
	next := &keys{client: r.Client, live: r.Client, namespace: "kubernetsn", now: time.Now}
	if private, err := next.clusterKey(t.Context()); err != nil || private.Public() != public[third.PublicKey] || private.Succession != third.Succession {
		t.Errorf("the next operator has another key: %v", err)
	}
}
