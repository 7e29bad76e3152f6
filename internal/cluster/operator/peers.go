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

// managedBy is the label of what the operator made.
const managedBy = "app.kubernetes.io/managed-by"

// Peers writes where the nodes of each network are. A node is among them when it has its part of the network, and pods on it or
// an agent: the agent stays for a while after the last pod, and so do the peers when that pod is only replaced.
type Peers struct {
	Client client.Client
	shared *shared
	// pace bounds how often all agents of a network are told something new. It is the controller's one worker's.
	pace *pace
}

// Reconcile looks at one network. What the cache does not know yet is looked at again.
func (r *Peers) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if err := r.shared.ready(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if wait := r.pace.wait(request.Name, writeEvery); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	err := r.look(ctx, request.Name)
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: againAfter}, nil
	}
	return reconcile.Result{}, err
}

func (r *Peers) look(ctx context.Context, name string) error {
	var network v1alpha1.TSNNetwork
	err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &network)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("look at network %s: %w", name, err)
	}
	have, strays, foreign, errList := r.have(ctx, name)
	if errList != nil {
		return errList
	}
	for i := range strays {
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, &strays[i])); err != nil {
			return fmt.Errorf("remove TSNPeers %s, which the operator has not made: %w", strays[i].Name, err)
		}
	}
	wanted, clusterKey := map[string]v1alpha1.PeerNode{}, ""
	if err == nil {
		if wanted, clusterKey, err = r.wanted(ctx, &network, have); err != nil {
			return err
		}
	} else {
		defer r.pace.forget(name) // what is written below is the last
	}
	return r.write(ctx, name, &network, have, foreign, wanted, clusterKey)
}

// wanted are the nodes that shall be peers, and the key by which they are signed, "" where they are not.
func (r *Peers) wanted(ctx context.Context, network *v1alpha1.TSNNetwork, have map[int]*v1alpha1.TSNPeers) (wanted map[string]v1alpha1.PeerNode, clusterKey string, err error) {
	nodes, err := listNodes(ctx, r.Client, r.shared.agents, r.shared.tunnels)
	if err != nil {
		return nil, "", err
	}
	r.shared.minimum.Raise(&network.Spec.Encryption, network.Name)
	signer, err := r.shared.keys.signer(ctx, network)
	if err != nil {
		return nil, "", err
	}
	if signer != nil {
		clusterKey = signer.Public().String()
	}
	for _, peers := range have {
		r.shared.announced.learn(signer, network.Name, peers.Spec.Nodes...)
	}
	r.shared.announced.forgetNodes(network.Name, func(node string) bool { return nodes.all[node] != nil })
	wanted = map[string]v1alpha1.PeerNode{}
	for _, peer := range r.shared.peersOf(network, nodes, signer) {
		peer.MTU = 0 // nodes of one cluster have the network's, and a report of it is no news for all of them
		wanted[peer.Name] = peer
	}
	return wanted, clusterKey, nil
}

// have returns the operator's TSNPeers of a network by their numbers. It also returns strays, which agents would take for the operator's because they
// have the network's label and no spec.cluster, and foreign, the numbers of which others have the names. A shard without the label managedBy is among
// the operator's: write sets the label again.
func (r *Peers) have(ctx context.Context, name string) (objects map[int]*v1alpha1.TSNPeers, strays []v1alpha1.TSNPeers, foreign map[int]bool, err error) {
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

// isOwnShard reports whether TSNPeers have the name and the labels of those that the operator writes.
func isOwnShard(peers *v1alpha1.TSNPeers) bool {
	network := peers.Spec.Network
	return peers.Spec.Cluster == "" && peers.Labels[v1alpha1.NetworkLabel] == network && peers.Labels[managedBy] == string(fieldOwner) &&
		tsnnetwork.ShardNumber(network, peers.Name) >= 0
}

// write changes the TSNPeers that are not as they shall be.
func (r *Peers) write(ctx context.Context, name string, network *v1alpha1.TSNNetwork, objects map[int]*v1alpha1.TSNPeers, foreign map[int]bool,
	wanted map[string]v1alpha1.PeerNode, clusterKey string) error {
	var have []tsnnetwork.Shard
	for number, peers := range objects {
		have = append(have, tsnnetwork.Shard{Number: number, Nodes: peers.Spec.Nodes})
	}
	var all error
	for _, shard := range tsnnetwork.DivideShards(have, wanted, foreign) {
		object := objects[shard.Number]
		// A network that was made anew has another identity.
		kept := object != nil && equality.Semantic.DeepEqual(object.OwnerReferences, ownedBy(network)) && object.Spec.ClusterKey == clusterKey && isOwnShard(object)
		if shard.Changed || !kept || len(shard.Nodes) == 0 {
			if err := r.writeShard(ctx, network, name, object, shard, clusterKey); err != nil {
				all = errors.Join(all, err)
				continue
			}
			r.pace.done(name)
		}
	}
	return all
}

func (r *Peers) writeShard(ctx context.Context, network *v1alpha1.TSNNetwork, name string, have *v1alpha1.TSNPeers, shard tsnnetwork.Shard, clusterKey string) error {
	at := tsnnetwork.ShardName(name, shard.Number)
	var err error
	switch {
	case have == nil:
		err = r.Client.Create(ctx, &v1alpha1.TSNPeers{
			ObjectMeta: metav1.ObjectMeta{
				Name: at, Labels: map[string]string{v1alpha1.NetworkLabel: name, managedBy: string(fieldOwner)},
				OwnerReferences: ownedBy(network),
			},
			Spec: v1alpha1.TSNPeersSpec{Network: name, ClusterKey: clusterKey, Nodes: shard.Nodes},
		}, fieldOwner)
	case len(shard.Nodes) == 0:
		err = client.IgnoreNotFound(r.Client.Delete(ctx, have))
	default:
		have.Labels[managedBy] = string(fieldOwner)
		have.Spec.Nodes, have.Spec.ClusterKey, have.OwnerReferences = shard.Nodes, clusterKey, ownedBy(network)
		err = r.Client.Update(ctx, have, fieldOwner)
	}
	if err != nil {
		return fmt.Errorf("write TSNPeers %s: %w", at, err)
	}
	return nil
}

// ownedBy has objects go with their network, should it be removed without the operator.
func ownedBy(network *v1alpha1.TSNNetwork) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "TSNNetwork", Name: network.Name, UID: network.UID,
	}}
}
