// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// peersName returns the name, without the shard's number, of the TSNPeers with the nodes of a cluster.
func peersName(network, cluster string) string { return network + "." + cluster }

// shardsOf are the TSNPeers of a network, by cluster and number.
type shardsOf map[string]map[int]*tsn.TSNPeers

// nodes returns the published nodes of a cluster, sorted by name.
func (s shardsOf) nodes(cluster string) []tsn.PeerNode {
	var all []tsn.PeerNode
	for _, peers := range s[cluster] {
		all = append(all, peers.Spec.Nodes...)
	}
	slices.SortFunc(all, func(a, b tsn.PeerNode) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (s *Reconciler) readShards(ctx context.Context, network string) (shardsOf, error) {
	var list tsn.TSNPeersList
	if err := s.Live.List(ctx, &list, client.MatchingLabels{tsn.NetworkLabel: network, federation.ManagedBy: federation.Manager}); err != nil {
		return nil, fmt.Errorf("list the peers: %w", err)
	}
	have := shardsOf{}
	for i := range list.Items {
		peers := &list.Items[i]
		number := tsnnetwork.ShardNumber(peersName(network, peers.Spec.Cluster), peers.Name)
		if number < 0 {
			continue
		}
		if have[peers.Spec.Cluster] == nil {
			have[peers.Spec.Cluster] = map[int]*tsn.TSNPeers{}
		}
		have[peers.Spec.Cluster][number] = peers
	}
	return have, nil
}

// writePeers publishes the nodes of each cluster to the others. Empty TSNPeers are kept: clusters keep objects that the
// hub deletes, and so would keep the nodes.
func (s *Reconciler) writePeers(ctx context.Context, network *tsn.TSNNetwork, p *plan, v *view, wanted map[string]map[string]tsn.PeerNode) error {
	have := v.published
	clusters := map[string]bool{}
	for cluster := range have {
		clusters[cluster] = true
	}
	for cluster := range wanted {
		clusters[cluster] = true
	}
	var all error
	for _, cluster := range slices.Sorted(maps.Keys(clusters)) {
		err := s.writePeersOf(ctx, network, p, v, cluster, wanted[cluster])
		if apierrors.IsInvalid(err) {
			p.findings = append(p.findings, spread.Finding{Reason: spread.ReasonUntrusted,
				Text: fmt.Sprintf("changes of the nodes of cluster %s are not passed on: the API server rejects what it reports: %s", cluster, spread.Quoted(err.Error()))})
			continue
		}
		all = errors.Join(all, err)
	}
	return all
}

// clusterKey returns the key with which a cluster signs its nodes, by its current or its last report. Nodes and
// signatures are passed on unchanged: the hub can withhold them, but cannot forge them.
func (v *view) clusterKey(cluster string) tsn.ClusterKey {
	if !v.reports[cluster].HasStatus {
		for _, peers := range v.published[cluster] {
			return tsn.ClusterKey{PublicKey: peers.Spec.ClusterKey, Succession: peers.Spec.ClusterKeySuccession}
		}
		return tsn.ClusterKey{}
	}
	for _, key := range v.reports[cluster].Status.ClusterKeys {
		if key.Cluster == "" {
			return key
		}
	}
	return tsn.ClusterKey{}
}

func (s *Reconciler) writePeersOf(ctx context.Context, network *tsn.TSNNetwork, p *plan, v *view, cluster string, wanted map[string]tsn.PeerNode) error {
	have := v.published[cluster]
	var shards []tsnnetwork.Shard
	for number, peers := range have {
		shards = append(shards, tsnnetwork.Shard{Number: number, Nodes: peers.Spec.Nodes})
	}
	var selectors []policyv1alpha1.ResourceSelector
	for _, shard := range tsnnetwork.DivideShards(shards, wanted, nil) {
		name := tsnnetwork.ShardName(peersName(network.Name, cluster), shard.Number)
		selectors = append(selectors, spread.Selector("TSNPeers", "", name))
		if err := s.writeShard(ctx, network, cluster, v.clusterKey(cluster), name, have[shard.Number], shard); err != nil {
			return err
		}
	}
	slices.SortFunc(selectors, func(a, b policyv1alpha1.ResourceSelector) int { return strings.Compare(a.Name, b.Name) })
	others := slices.DeleteFunc(slices.Clone(p.selected), func(other string) bool { return other == cluster })
	// These objects are the hub's alone, also those that a cluster kept when it left.
	policy := &policyv1alpha1.ClusterPropagationPolicy{}
	return s.owner(network).Place(ctx, policy, &policy.Spec, "kubernetsn-peers-"+peersName(network.Name, cluster), selectors, v.clusters, others, policyv1alpha1.ConflictOverwrite)
}

func (s *Reconciler) writeShard(ctx context.Context, network *tsn.TSNNetwork, cluster string, clusterKey tsn.ClusterKey, name string, existing *tsn.TSNPeers, shard tsnnetwork.Shard) error {
	object := &tsn.TSNPeers{Spec: tsn.TSNPeersSpec{Network: network.Name, Cluster: cluster}}
	if existing != nil {
		object = existing.DeepCopy()
	}
	if _, err := s.owner(network).Adopt(object, name); err != nil {
		return err
	}
	object.Spec.Nodes, object.Spec.ClusterKey, object.Spec.ClusterKeySuccession = shard.Nodes, clusterKey.PublicKey, clusterKey.Succession
	return spread.Save(ctx, s.Client, existing, object)
}
