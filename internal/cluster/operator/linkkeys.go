// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
)

// linkKeys are the nodes with ends of encrypted links, and the keys of clusters by which they believe the other ends.
type linkKeys struct {
	mu sync.Mutex
	// known tells whether the links have been looked at.
	known bool
	nodes map[string]bool
	keys  []v1alpha1.ClusterKey
}

// of are the keys that a node shall be told of. What it was told stays as long as nothing is known.
func (l *linkKeys) of(node string, keys []v1alpha1.ClusterKey) []v1alpha1.ClusterKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.known:
		return keys
	case l.nodes[node]:
		return l.keys
	}
	return nil
}

// set takes what holds now, and returns the nodes that are to be told.
func (l *linkKeys) set(nodes map[string]bool, keys []v1alpha1.ClusterKey) (changed []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	same := l.known && slices.Equal(l.keys, keys)
	for _, some := range []map[string]bool{l.nodes, nodes} {
		for name := range some {
			if !same || l.nodes[name] != nodes[name] {
				changed = append(changed, name)
			}
		}
	}
	l.known, l.nodes, l.keys = true, nodes, keys
	slices.Sort(changed)
	return slices.Compact(changed)
}

// told are the keys that nodes have been told of.
func (l *linkKeys) told() []v1alpha1.ClusterKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keys
}

// fit are as many keys as a TSNNode takes: the cluster's own, those that nodes were told of before, and then others. With one more, no TSNNode
// could be written.
func fit(keys, before []v1alpha1.ClusterKey) []v1alpha1.ClusterKey {
	if len(keys) <= v1alpha1.MostClusterKeys {
		return keys
	}
	rank := func(key v1alpha1.ClusterKey) int {
		switch {
		case key.Cluster == "":
			return 0
		case slices.ContainsFunc(before, func(was v1alpha1.ClusterKey) bool { return was.Cluster == key.Cluster }):
			return 1
		}
		return 2
	}
	kept := slices.SortedStableFunc(slices.Values(keys), func(a, b v1alpha1.ClusterKey) int { return cmp.Compare(rank(a), rank(b)) })
	kept = kept[:v1alpha1.MostClusterKeys]
	slices.SortFunc(kept, func(a, b v1alpha1.ClusterKey) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return kept
}

// encrypts tells whether any service or link asks for encryption.
func encrypts(in *links.Input) bool {
	return slices.ContainsFunc(in.Services, func(service v1alpha1.TSNService) bool { return service.Spec.Encrypted() }) ||
		slices.ContainsFunc(in.Links, func(link v1alpha1.TSNLink) bool { return link.Spec.Encrypted() })
}

// sign has the nodes' keys signed, where links ask for encryption. A node that has said nothing of keys has none. Without the cluster's key nodes
// have what links say of them, so that all other links go on; tellKeys returns the error.
func (r *Links) sign(ctx context.Context, in *links.Input, states map[string]*v1alpha1.TSNNode) {
	if !encrypts(in) {
		return
	}
	private, err := r.shared.keys.ownKey(ctx)
	if err != nil {
		keepKeys(in)
		return
	}
	r.learn(private, in)
	r.shared.announced.forgetNodes(v1alpha1.LinkNetwork, func(node string) bool { _, has := in.Nodes[node]; return has })
	for name, node := range in.Nodes {
		state := states[name]
		if state == nil || len(state.Status.Keys) == 0 && state.Status.EncryptionUnavailable == "" {
			continue
		}
		peer := clusterkey.LinkNode(name, node.Address.String(), &v1alpha1.LinkNodeKeys{
			Keys: state.Status.Keys, Sender: state.Status.Sender, CannotEncrypt: state.Status.EncryptionUnavailable != "",
		})
		r.shared.announced.sign(private, v1alpha1.LinkNetwork, peer)
		node.Keys = private.NodeKeys(peer)
		in.Nodes[name] = node
	}
}

// keepKeys gives nodes of the cluster the newest keys that links have of them.
func keepKeys(in *links.Input) {
	for i := range in.Links {
		for _, end := range []*v1alpha1.LinkEnd{&in.Links[i].Spec.Client, &in.Links[i].Spec.Endpoint} {
			node, known := in.Nodes[end.Node]
			if known && end.NodeKeys != nil && node.Address.String() == end.NodeAddress && (node.Keys == nil || node.Keys.Sequence < end.NodeKeys.Sequence) {
				node.Keys = end.NodeKeys
				in.Nodes[end.Node] = node
			}
		}
	}
}

// learn takes from links what this cluster has signed of its nodes before.
func (r *Links) learn(private *clusterkey.Private, in *links.Input) {
	for i := range in.Links {
		for _, end := range []*v1alpha1.LinkEnd{&in.Links[i].Spec.Client, &in.Links[i].Spec.Endpoint} {
			if end.NodeKeys != nil && end.NodeKeys.ClusterKey == private.Public().String() {
				r.shared.announced.learn(private, v1alpha1.LinkNetwork, *clusterkey.LinkNode(end.Node, end.NodeAddress, end.NodeKeys))
			}
		}
	}
}

// tellKeys tells nodes with ends of encrypted links by which keys to believe the other ends. Links that are not admitted do not count: who makes
// such, as a hub, would have any node make keys, and have any cluster pinned.
func (r *Links) tellKeys(ctx context.Context, in *links.Input, plan *links.Result) error {
	admitted := map[*v1alpha1.TSNLink]bool{}
	for i := range plan.Admitted {
		admitted[plan.Admitted[i].Link] = plan.Admitted[i].Refusal == nil
	}
	local := map[string]bool{}
	for i := range in.Pods {
		local[in.Pods[i].UID] = true
	}
	nodes, reportedClaims := map[string]bool{}, claims{}
	for i := range in.Links {
		link := &in.Links[i]
		if link.Labels[v1alpha1.LinkMakerLabel] != v1alpha1.MakerOperator && !admitted[link] {
			continue
		}
		spec := &link.Spec
		if !spec.Encrypted() || spec.Client.Cluster == spec.Endpoint.Cluster && spec.Client.Node == spec.Endpoint.Node {
			continue
		}
		for _, ends := range [][2]*v1alpha1.LinkEnd{{&spec.Client, &spec.Endpoint}, {&spec.Endpoint, &spec.Client}} {
			here, there := ends[0], ends[1]
			if !local[here.UID] {
				continue
			}
			nodes[here.Node] = true
			if there.NodeKeys != nil && there.Cluster != here.Cluster {
				reportedClaims.add(there.Cluster, there.NodeKeys.ClusterKey, there.NodeKeys.ClusterKeySuccession, nil)
			}
		}
	}
	var keys []v1alpha1.ClusterKey
	if len(nodes) > 0 {
		key, err := r.shared.keys.ownKey(ctx)
		if err != nil {
			return err
		}
		// The links' conditions report a cluster whose key is not the pinned one.
		if keys, _, err = r.shared.keys.trustedKeys(ctx, key, nil, reportedClaims); err != nil {
			return err
		}
		keys = fit(keys, r.shared.links.told())
	}
	for _, node := range r.shared.links.set(nodes, keys) {
		r.shared.nodes.add(node, 0)
	}
	return nil
}
