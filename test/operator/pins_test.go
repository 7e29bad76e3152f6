// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
)

// announce has the agent of a node say its key.
func announce(ctx context.Context, t *testing.T, node string) {
	t.Helper()
	agent := agentOf(t, node)
	eventually(ctx, t, func() error {
		state := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: node}}
		if err := get(ctx, state); err != nil {
			return err
		}
		state.Status.AgentVersion = "1"
		state.Status.Keys = []v1alpha1.NodeKey{{ID: "one", Algorithm: v1alpha1.KeyAlgorithm, PublicKey: strings.Repeat("A", 43) + "=", NotBefore: metav1.Unix(1e9, 0)}}
		state.Status.Sender = &v1alpha1.SenderGenerations{Kernel: 1, Ktsnd: 4}
		return agent.Status().Update(ctx, state)
	})
}

// signedPeers are the TSNPeers of a network of this cluster, if its nodes are signed.
func signedPeers(ctx context.Context, network string) (*v1alpha1.TSNPeers, error) {
	peers := &v1alpha1.TSNPeers{ObjectMeta: metav1.ObjectMeta{Name: network + "-0"}}
	if err := get(ctx, peers); err != nil {
		return nil, err
	}
	key, err := clusterkey.Parse(peers.Spec.ClusterKey)
	if err != nil {
		return nil, err
	}
	if len(peers.Spec.Nodes) != 1 || len(peers.Spec.Nodes[0].Keys) != 1 {
		return nil, fmt.Errorf("agents get %+v", peers.Spec)
	}
	return peers, key.Verify(network, &peers.Spec.Nodes[0])
}

// TestHubCannotLowerEncryption below the cluster's minimum.
func TestHubCannotLowerEncryption(t *testing.T) {
	ctx := needOperator(t)
	network := newNetwork("floor", 1236, "10.136.0.0/16")
	network.Spec.Encryption, network.Spec.IPv4.Part = v1alpha1.EncryptionRequired, "10.136.0.0/20"
	create(ctx, t, newNode("floor-node"), network)
	create(ctx, t, onNetwork("floor-pod", "default", "floor", "floor-node"))
	announce(ctx, t, "floor-node")
	eventually(ctx, t, func() error { _, err := signedPeers(ctx, "floor"); return err })
	state := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: "floor-node"}}
	current(ctx, t, state)
	mustPatch(ctx, t, network, `{"spec":{"encryption":"None"}}`)
	condition(ctx, t, network, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonEncryptionBelowMinimum, "spec.encryption of TSNNetwork floor is None, and the minimum of this cluster for it is Required")
	if err := get(ctx, network); err != nil || len(network.Status.ClusterKeys) != 1 || network.Spec.Encryption != v1alpha1.EncryptionNone {
		t.Errorf("nodes get %v: %v", network.Status.ClusterKeys, err)
	}
	if _, err := signedPeers(ctx, "floor"); err != nil {
		t.Error(err)
	}
	generation := state.Generation
	if err := get(ctx, state); err != nil || state.Generation != generation {
		t.Errorf("the TSNNode was changed: %v", err)
	}

	service := newService("floor", "10.137.0.0/16")
	lab := newLinkLab(ctx, t, "floor-links", service)
	lab.pod(t, "view", 1, map[string]string{v1alpha1.EndpointLabelPrefix + "floor": "view"}, true)
	lab.pod(t, "control", 0, map[string]string{v1alpha1.ClientLabelPrefix + "floor": "cam"}, false)
	var local v1alpha1.TSNLink
	eventually(ctx, t, func() error {
		var all v1alpha1.TSNLinkList
		if err := admin.List(ctx, &all, client.InNamespace(lab.namespace)); err != nil || len(all.Items) != 1 {
			return errors.Join(err, fmt.Errorf("there are %d links", len(all.Items)))
		}
		local = all.Items[0]
		return nil
	})
	if local.Spec.Encryption != v1alpha1.EncryptionRequired {
		t.Errorf("the cluster's own link has encryption %q", local.Spec.Encryption)
	}
	hub := &v1alpha1.TSNLink{ObjectMeta: metav1.ObjectMeta{Namespace: lab.namespace, Name: "floor-0-hub", Labels: map[string]string{v1alpha1.LinkMakerLabel: v1alpha1.MakerFederator}},
		Spec: *local.Spec.DeepCopy()}
	hub.Spec.VNI, hub.Spec.Encryption = v1alpha1.LastLinkVNI-1, v1alpha1.EncryptionNone
	hub.Spec.Client.Addresses, hub.Spec.Endpoint.Addresses = []string{"10.137.255.250/31"}, []string{"10.137.255.251/31"}
	hub.Spec.Client.Cluster, hub.Spec.Client.UID, hub.Spec.Client.NodeAddress = "floor-west", "elsewhere", "192.0.2.78"
	hub.Spec.Endpoint.Cluster, hub.Spec.Endpoint.Interface = "floor-north", "view5000"
	create(ctx, t, hub)
	awaitAdmitted(ctx, t, hub, metav1.ConditionFalse, "its encryption is None, and links of TSNService floor-links/floor have Required here")
}

// remoteCluster is another cluster of network "parts" as a hub brings it.
func remoteCluster(t *testing.T, name string, key *clusterkey.Private, address, part string) *v1alpha1.TSNPeers {
	t.Helper()
	node := v1alpha1.PeerNode{Name: "n", Address: address, IPv4: strings.TrimSuffix(part, "/20") + "/24", ClusterIPv4: part, Sequence: 1}
	key.Sign("parts", &node)
	return &v1alpha1.TSNPeers{ObjectMeta: metav1.ObjectMeta{Name: "parts." + name + "-0", Labels: map[string]string{v1alpha1.NetworkLabel: "parts"}},
		Spec: v1alpha1.TSNPeersSpec{Network: "parts", Cluster: name, ClusterKey: key.Public().String(), ClusterKeySuccession: key.Succession, Nodes: []v1alpha1.PeerNode{node}}}
}

func someKey(t *testing.T) *clusterkey.Private {
	t.Helper()
	key, err := clusterkey.New()
	must(t, err)
	return key
}

// TestHubCannotMovePart has a hub withhold a pinned cluster, and bring one of its own with that one's part.
func TestHubCannotMovePart(t *testing.T) {
	ctx := needPolicy(t)
	network := newNetwork("parts", 1238, "10.138.0.0/16")
	network.Spec.Encryption, network.Spec.IPv4.Part = v1alpha1.EncryptionRequired, "10.138.0.0/20"
	create(ctx, t, newNode("parts-node"), network)
	create(ctx, t, onNetwork("parts-pod", "default", "parts", "parts-node"))
	south, evil := someKey(t), someKey(t)
	trusts := func(wanted ...v1alpha1.ClusterKey) {
		t.Helper()
		await(ctx, t, network, func() error {
			others := slices.DeleteFunc(slices.Clone(network.Status.ClusterKeys), func(key v1alpha1.ClusterKey) bool { return key.Cluster == "" })
			if !slices.Equal(others, wanted) {
				return fmt.Errorf("nodes get %+v, want %+v", others, wanted)
			}
			return nil
		})
	}
	key := func(cluster string, signer *clusterkey.Private, part string) v1alpha1.ClusterKey {
		return v1alpha1.ClusterKey{Cluster: cluster, PublicKey: signer.Public().String(), IPv4: part}
	}
	withheld := remoteCluster(t, "parts-south", south, "192.0.2.81", "10.138.16.0/20")
	create(ctx, t, withheld)
	trusts(key("parts-south", south, "10.138.16.0/20"))
	must(t, admin.Delete(ctx, withheld))
	create(ctx, t, remoteCluster(t, "parts-evil", evil, "192.0.2.66", "10.138.16.0/20"))
	trusts(key("parts-evil", evil, ""))
	condition(ctx, t, network, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonClusterPartDiffers, "cluster parts-evil signs nodes for 10.138.16.0/20 of network parts, and cluster parts-south has addresses of it")

	t.Run("a key that is rolled is followed", func(t *testing.T) {
		next, err := south.Succeed()
		must(t, err)
		create(ctx, t, remoteCluster(t, "parts-south", next, "192.0.2.81", "10.138.16.0/20"))
		trusts(key("parts-evil", evil, ""), key("parts-south", next, "10.138.16.0/20"))
	})
	t.Run("nobody else says which keys are trusted", func(t *testing.T) {
		await(ctx, t, network, func() error {
			network.Status.ClusterKeys[1].IPv4 = "10.138.16.0/20"
			if err := admin.Status().Update(ctx, network); err == nil || !strings.Contains(err.Error(), "only ktsn-operator may write status.clusterKeys of a TSNNetwork") {
				return fmt.Errorf("the API server says %w", err)
			}
			return nil
		})
	})
	t.Run("names that are none", func(t *testing.T) {
		for _, name := range []string{"a b", "A", "a/b", "-a"} {
			wrong := remoteCluster(t, "x", evil, "192.0.2.66", "10.138.32.0/20")
			wrong.Spec.Cluster = name
			if err := admin.Create(ctx, wrong, client.DryRunAll); !apierrors.IsInvalid(err) {
				t.Errorf("cluster %q: %v", name, err)
			}
		}
	})
}

// TestClusterKeyRoll by an annotation, with the rights that the chart gives the operator.
func TestClusterKeyRoll(t *testing.T) {
	ctx := needOperator(t)
	network := newNetwork("rolled", 1239, "10.139.0.0/16")
	network.Spec.Encryption, network.Spec.IPv4.Part = v1alpha1.EncryptionRequired, "10.139.0.0/20"
	create(ctx, t, newNode("rolled-node"), network)
	create(ctx, t, onNetwork("rolled-pod", "default", "rolled", "rolled-node"))
	announce(ctx, t, "rolled-node")
	var before *v1alpha1.TSNPeers
	eventually(ctx, t, func() (err error) { before, err = signedPeers(ctx, "rolled"); return err })
	first, err := clusterkey.Parse(before.Spec.ClusterKey)
	must(t, err)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: v1alpha1.ClusterKeySecret}}
	mustPatch(ctx, t, secret, `{"metadata":{"annotations":{"kubernetsn.io/roll":"now"}}}`)
	other := &v1alpha1.TSNPeers{ObjectMeta: metav1.ObjectMeta{Name: "rolled.other-0", Labels: map[string]string{v1alpha1.NetworkLabel: "rolled"}},
		Spec: v1alpha1.TSNPeersSpec{Network: "rolled", Cluster: "rolled-other"}}
	create(ctx, t, other)
	eventually(ctx, t, func() error {
		if err := get(ctx, other); err != nil { // has the operator look without a minute's wait
			return err
		}
		other.Spec.Nodes = []v1alpha1.PeerNode{{Name: fmt.Sprint("n", other.Generation), Address: "192.0.2.82", IPv4: "10.139.16.0/24"}}
		if err := admin.Update(ctx, other); err != nil {
			return err
		}
		if err := get(ctx, network); err != nil || len(network.Status.ClusterKeys) != 1 {
			return errors.Join(err, fmt.Errorf("nodes get %v", network.Status.ClusterKeys))
		}
		now, err := clusterkey.Parse(network.Status.ClusterKeys[0].PublicKey)
		if err != nil {
			return err
		}
		if !now.Succeeds(first, network.Status.ClusterKeys[0].Succession) {
			return fmt.Errorf("the key is %s with the succession %q", now, network.Status.ClusterKeys[0].Succession)
		}
		peers, err := signedPeers(ctx, "rolled")
		if err != nil || peers.Spec.ClusterKey != now.String() {
			return errors.Join(err, fmt.Errorf("agents get nodes signed by %s", peers.Spec.ClusterKey))
		}
		return nil
	})
}
