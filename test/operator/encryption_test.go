// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
)

// TestEncryptedNetwork has the operator work with the rights that the chart gives it.
func TestEncryptedNetwork(t *testing.T) {
	ctx := needOperator(t)
	network := newNetwork("secret", 233, "10.233.0.0/16")
	network.Spec.Encryption, network.Spec.IPv4.Part = v1alpha1.EncryptionRequired, "10.233.0.0/20"
	create(ctx, t, newNode("secret-node"), network)
	create(ctx, t, onNetwork("secret-pod", "default", "secret", "secret-node"))
	announce(ctx, t, "secret-node")
	eventually(ctx, t, func() error {
		peers, err := signedPeers(ctx, "secret")
		if err != nil {
			return err
		}
		if err := get(ctx, network); err != nil {
			return err
		}
		if keys := network.Status.ClusterKeys; len(keys) != 1 || keys[0].PublicKey != peers.Spec.ClusterKey {
			return fmt.Errorf("nodes trust %v, want %s", keys, peers.Spec.ClusterKey)
		}
		return nil
	})
	eventually(ctx, t, func() error { // the status that the hub reads
		if err := get(ctx, network); err != nil || len(network.Status.Peers) != 1 {
			return errors.Join(err, fmt.Errorf("the hub reads %+v", network.Status.Peers))
		}
		public, err := clusterkey.Parse(network.Status.ClusterKeys[0].PublicKey)
		return errors.Join(err, public.Verify("secret", &network.Status.Peers[0]))
	})
	var secret corev1.Secret
	if err := admin.Get(ctx, client.ObjectKey{Namespace: system, Name: v1alpha1.ClusterKeySecret}, &secret); err != nil || len(secret.Data[v1alpha1.ClusterKeyField]) != 32 {
		t.Errorf("the cluster's key: %v", err)
	}

	first, second := anyKey(t), anyKey(t)
	south := &v1alpha1.TSNPeers{ObjectMeta: metav1.ObjectMeta{Name: "secret.south-0", Labels: map[string]string{v1alpha1.NetworkLabel: "secret"}},
		Spec: v1alpha1.TSNPeersSpec{Network: "secret", Cluster: "south", ClusterKey: first}}
	create(ctx, t, south)
	believes := func(key string) func() error {
		return func() error {
			if err := get(ctx, network); err != nil {
				return err
			}
			if keys := network.Status.ClusterKeys; len(keys) != 2 || keys[1] != (v1alpha1.ClusterKey{Cluster: "south", PublicKey: key}) {
				return fmt.Errorf("nodes trust %v", keys)
			}
			return nil
		}
	}
	eventually(ctx, t, believes(first))
	change(ctx, t, south, func() { south.Spec.ClusterKey = second })
	condition(ctx, t, network, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonClusterKeyDiffers, "cluster south: its cluster signs by SHA256:")
	if err := believes(first)(); err != nil {
		t.Error(err)
	}
}

func anyKey(t *testing.T) string {
	t.Helper()
	key, err := clusterkey.New()
	must(t, err)
	return key.Public().String()
}

// TestEncryptedLinks has a service with encryption, endpoints on another node, and a link that a hub brings.
func TestEncryptedLinks(t *testing.T) {
	ctx := needPolicy(t)
	service := newService("veiled", "10.234.0.0/16")
	service.Spec.Encryption = v1alpha1.EncryptionRequired
	lab := newLinkLab(ctx, t, "veiled-links", service)
	announced := map[string]v1alpha1.NodeKey{}
	for i, node := range lab.nodes {
		announced[node.Name] = v1alpha1.NodeKey{ID: "one", Algorithm: v1alpha1.KeyAlgorithm, PublicKey: strings.Repeat("A", 42) + string(rune('E'+4*i)) + "=", NotBefore: metav1.Unix(1e9, 0)}
	}
	lab.pod(t, "view", 1, map[string]string{v1alpha1.EndpointLabelPrefix + "veiled": "view"}, true)
	lab.pod(t, "control", 0, map[string]string{v1alpha1.ClientLabelPrefix + "veiled": "cam"}, false)
	linkOf := func() (*v1alpha1.TSNLink, error) {
		var all v1alpha1.TSNLinkList
		if err := admin.List(ctx, &all, client.InNamespace(lab.namespace)); err != nil || len(all.Items) != 1 {
			return nil, errors.Join(err, fmt.Errorf("there are %d links", len(all.Items)))
		}
		return &all.Items[0], nil
	}
	keysOf := func(node string) (keys []v1alpha1.ClusterKey, err error) {
		state := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: node}}
		err = get(ctx, state)
		return state.Spec.ClusterKeys, err
	}
	var public clusterkey.Public
	for _, node := range lab.nodes {
		agent := agentOf(t, node.Name)
		eventually(ctx, t, func() error {
			keys, err := keysOf(node.Name)
			if err != nil || len(keys) != 1 || keys[0].Cluster != "" {
				return errors.Join(err, fmt.Errorf("node %s is told %v", node.Name, keys))
			}
			public, err = clusterkey.Parse(keys[0].PublicKey)
			return err
		})
		eventually(ctx, t, func() error {
			state := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
			if err := get(ctx, state); err != nil {
				return err
			}
			state.Status.AgentVersion, state.Status.Keys = "1", []v1alpha1.NodeKey{announced[node.Name]}
			state.Status.Sender = &v1alpha1.SenderGenerations{Kernel: 1, Ktsnd: 4}
			return agent.Status().Update(ctx, state)
		})
	}
	eventually(ctx, t, func() error {
		link, err := linkOf()
		if err != nil {
			return err
		}
		for _, end := range []*v1alpha1.LinkEnd{&link.Spec.Client, &link.Spec.Endpoint} {
			if end.NodeKeys == nil || len(end.NodeKeys.Keys) != 1 || end.NodeKeys.Keys[0].PublicKey != announced[end.Node].PublicKey {
				return fmt.Errorf("of node %s the link says %+v", end.Node, end.NodeKeys)
			}
			if err := public.Verify(v1alpha1.LinkNetwork, clusterkey.LinkNode(end.Node, end.NodeAddress, end.NodeKeys)); err != nil {
				return err
			}
		}
		return nil
	})
	eventually(ctx, t, func() error { // what a hub gets
		if err := get(ctx, service); err != nil || len(service.Status.Nodes) != 1 || service.Status.Nodes[0].Name != lab.nodes[1].Name {
			return errors.Join(err, fmt.Errorf("the hub reads %+v", service.Status.Nodes))
		}
		return nil
	})

	t.Run("a hub's link has its cluster pinned", func(t *testing.T) {
		link, err := linkOf()
		must(t, err)
		first := anyKey(t)
		across := &v1alpha1.TSNLink{ObjectMeta: metav1.ObjectMeta{Namespace: lab.namespace, Name: "veiled-0-hub", Labels: map[string]string{v1alpha1.LinkMakerLabel: v1alpha1.MakerFederator}}, Spec: *link.Spec.DeepCopy()}
		across.Spec.VNI = v1alpha1.LastLinkVNI
		across.Spec.Client.Addresses, across.Spec.Endpoint.Addresses = []string{"10.234.255.252/31"}, []string{"10.234.255.253/31"}
		across.Spec.Endpoint.Cluster, across.Spec.Endpoint.Interface = "north", "view5000"
		across.Spec.Client.Cluster, across.Spec.Client.UID, across.Spec.Client.NodeAddress = "west-of-links", "elsewhere", "192.0.2.77"
		across.Spec.Client.NodeKeys.ClusterKey = first
		create(ctx, t, across)
		pinned := func(key string) func() error {
			return func() error {
				keys, err := keysOf(lab.nodes[1].Name)
				if err != nil || len(keys) != 2 || keys[1] != (v1alpha1.ClusterKey{Cluster: "west-of-links", PublicKey: key}) {
					return errors.Join(err, fmt.Errorf("the node is told %v", keys))
				}
				return nil
			}
		}
		eventually(ctx, t, pinned(first))
		change(ctx, t, across, func() { across.Spec.Client.NodeKeys.ClusterKey = anyKey(t) })
		if err := pinned(first)(); err != nil {
			t.Error(err)
		}
		state := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: lab.nodes[1].Name}}
		current(ctx, t, state)
		state.Spec.ClusterKeys[1].PublicKey = anyKey(t)
		if err := admin.Update(ctx, state); err == nil || !strings.Contains(err.Error(), "only ktsn-operator may write spec.clusterKeys of a TSNNode") {
			t.Errorf("somebody else says by which keys nodes believe: %v", err)
		}
	})

	t.Run("without encryption nothing is told", func(t *testing.T) {
		change(ctx, t, service, func() { service.Spec.Encryption = v1alpha1.EncryptionNone })
		eventually(ctx, t, func() error {
			keys, err := keysOf(lab.nodes[0].Name)
			if err != nil || len(keys) != 0 {
				return errors.Join(err, fmt.Errorf("the node is still told %v", keys))
			}
			return nil
		})
	})
}
