// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// managedBy is the label of objects that the operator created.
const managedBy = "app.kubernetes.io/managed-by"

// Peers writes the TSNPeers of each network, with the static addresses of its pods. A node is a peer if it has a subnet of the network, and pods
// on it or an agent: the agent stays for a while after the last pod, so peers do not change when that pod is only replaced.
type Peers struct {
	Client client.Client
	shared *shared
	// pace limits how often the TSNPeers of a network are written, which all its agents read. Only the controller's single worker uses it.
	pace *pace
	// held has the static addresses of pods as assigned last, by network. It belongs to the worker, too.
	held map[string]heldAddresses
}

// Reconcile reconciles the TSNPeers of one network. It retries what the cache does not have yet.
func (r *Peers) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if err := r.shared.waitReady(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if wait := r.pace.wait(request.Name, writeInterval); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	err := r.reconcile(ctx, request.Name)
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: conflictRetryDelay}, nil
	}
	return reconcile.Result{}, err
}

func (r *Peers) reconcile(ctx context.Context, name string) error {
	var network v1alpha1.TSNNetwork
	err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &network)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get network %s: %w", name, err)
	}
	existing, strays, foreign, listErr := r.listShards(ctx, name)
	if listErr != nil {
		return listErr
	}
	for i := range strays {
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, &strays[i])); err != nil {
			return fmt.Errorf("delete TSNPeers %s, which the operator has not created: %w", strays[i].Name, err)
		}
	}
	wanted, clusterKey := map[string]v1alpha1.PeerNode{}, ""
	if err == nil {
		if wanted, clusterKey, err = r.desired(ctx, &network, existing); err != nil {
			return err
		}
	} else {
		delete(r.held, name)
		defer r.pace.forget(name) // the shards are deleted below
	}
	return r.writeShards(ctx, name, &network, existing, foreign, wanted, clusterKey)
}

// desired returns the nodes that should be peers, and the key that signs them, "" for a network without encryption.
func (r *Peers) desired(ctx context.Context, network *v1alpha1.TSNNetwork, existing map[int]*v1alpha1.TSNPeers) (wanted map[string]v1alpha1.PeerNode, clusterKey string, err error) {
	nodes, err := listNodes(ctx, r.Client, r.shared.agents, r.shared.tunnels)
	if err != nil {
		return nil, "", err
	}
	r.shared.minimum.Raise(&network.Spec.Encryption, network.Name)
	signer, err := r.shared.keys.signingKey(ctx, network)
	if err != nil {
		return nil, "", err
	}
	if signer != nil {
		clusterKey = signer.Public().String()
	}
	for _, peers := range existing {
		r.shared.announced.learn(signer, network.Name, peers.Spec.Nodes...)
	}
	r.shared.announced.forgetNodes(network.Name, func(node string) bool { return nodes.all[node] != nil })
	addresses, err := r.assignAddresses(ctx, network, existing)
	if err != nil {
		return nil, "", err
	}
	wanted = map[string]v1alpha1.PeerNode{}
	for _, peer := range r.shared.peersOf(network, nodes, addresses, signer) {
		peer.MTU = 0 // all nodes of a cluster have the network's MTU: do not wake all agents for a report of it
		wanted[peer.Name] = peer
	}
	return wanted, clusterKey, nil
}

// listShards returns the operator's TSNPeers of a network by shard number. It also returns strays, which agents would take for the
// operator's because they have the network's label and no spec.cluster, and foreign, the shard numbers whose names other objects have.
// A shard without the label managedBy is among the operator's: writeShards sets the label again.
func (r *Peers) listShards(ctx context.Context, name string) (objects map[int]*v1alpha1.TSNPeers, strays []v1alpha1.TSNPeers, foreign map[int]bool, err error) {
	var list v1alpha1.TSNPeersList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, nil, fmt.Errorf("list the peers of network %s: %w", name, err)
	}
	objects, foreign = map[int]*v1alpha1.TSNPeers{}, map[int]bool{}
	for i := range list.Items {
		peers := &list.Items[i]
		number := tsnnetwork.ShardNumber(name, peers.Name)
		selected := name != "" && peers.Labels[v1alpha1.NetworkLabel] == name && peers.Spec.Cluster == ""
		switch {
		case selected && number >= 0 && peers.Spec.Network == name:
			objects[number] = peers.DeepCopy()
		case selected:
			strays = append(strays, *peers.DeepCopy())
		}
		if number >= 0 && objects[number] == nil {
			foreign[number] = true
		}
	}
	return objects, strays, foreign, nil
}

// isOwnShard reports whether TSNPeers have the name and the labels of a shard that the operator writes.
func isOwnShard(peers *v1alpha1.TSNPeers) bool {
	network := peers.Spec.Network
	return peers.Spec.Cluster == "" && peers.Labels[v1alpha1.NetworkLabel] == network && peers.Labels[managedBy] == string(fieldOwner) &&
		tsnnetwork.ShardNumber(network, peers.Name) >= 0
}

// writeShards creates, updates and deletes the TSNPeers that differ from the desired ones.
func (r *Peers) writeShards(ctx context.Context, name string, network *v1alpha1.TSNNetwork, objects map[int]*v1alpha1.TSNPeers, foreign map[int]bool,
	wanted map[string]v1alpha1.PeerNode, clusterKey string) error {
	var existing []tsnnetwork.Shard
	for number, peers := range objects {
		existing = append(existing, tsnnetwork.Shard{Number: number, Nodes: peers.Spec.Nodes})
	}
	var errs error
	for _, shard := range tsnnetwork.DivideShards(existing, wanted, foreign) {
		object := objects[shard.Number]
		// A recreated network has another UID.
		unchanged := object != nil && equality.Semantic.DeepEqual(object.OwnerReferences, ownedBy(network)) && object.Spec.ClusterKey == clusterKey && isOwnShard(object)
		if shard.Changed || !unchanged || len(shard.Nodes) == 0 {
			if err := r.writeShard(ctx, network, name, object, shard, clusterKey); err != nil {
				errs = errors.Join(errs, err)
				continue
			}
			r.pace.done(name)
		}
	}
	return errs
}

func (r *Peers) writeShard(ctx context.Context, network *v1alpha1.TSNNetwork, name string, existing *v1alpha1.TSNPeers, shard tsnnetwork.Shard, clusterKey string) error {
	shardName := tsnnetwork.ShardName(name, shard.Number)
	var err error
	switch {
	case existing == nil:
		err = r.Client.Create(ctx, &v1alpha1.TSNPeers{
			ObjectMeta: metav1.ObjectMeta{
				Name: shardName, Labels: map[string]string{v1alpha1.NetworkLabel: name, managedBy: string(fieldOwner)},
				OwnerReferences: ownedBy(network),
			},
			Spec: v1alpha1.TSNPeersSpec{Network: name, ClusterKey: clusterKey, Nodes: shard.Nodes},
		}, fieldOwner)
	case len(shard.Nodes) == 0:
		err = client.IgnoreNotFound(r.Client.Delete(ctx, existing))
	default:
		existing.Labels[managedBy] = string(fieldOwner)
		existing.Spec.Nodes, existing.Spec.ClusterKey, existing.OwnerReferences = shard.Nodes, clusterKey, ownedBy(network)
		err = r.Client.Update(ctx, existing, fieldOwner)
	}
	if err != nil {
		return fmt.Errorf("write TSNPeers %s: %w", shardName, err)
	}
	return nil
}

// ownedBy returns the owner reference by which objects are deleted with their network, even without the operator.
func ownedBy(network *v1alpha1.TSNNetwork) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "TSNNetwork", Name: network.Name, UID: network.UID,
	}}
}
