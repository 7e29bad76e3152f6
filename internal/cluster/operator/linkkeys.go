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

// linkKeys has the nodes with ends of encrypted links, and the cluster keys that they trust at the other ends.
type linkKeys struct {
	mu sync.Mutex
	// known is set after the first plan of links.
	known bool
	nodes map[string]bool
	keys  []v1alpha1.ClusterKey
}

// forNode returns the keys for a node's TSNNode. Before the first plan the existing keys stay.
func (l *linkKeys) forNode(node string, keys []v1alpha1.ClusterKey) []v1alpha1.ClusterKey {
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

// set stores nodes and keys, and returns the nodes whose TSNNode changes.
func (l *linkKeys) set(nodes map[string]bool, keys []v1alpha1.ClusterKey) (changed []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	same := l.known && slices.Equal(l.keys, keys)
	for _, set := range []map[string]bool{l.nodes, nodes} {
		for name := range set {
			if !same || l.nodes[name] != nodes[name] {
				changed = append(changed, name)
			}
		}
	}
	l.known, l.nodes, l.keys = true, nodes, keys
	slices.Sort(changed)
	return slices.Compact(changed)
}

// current returns the keys that nodes have.
func (l *linkKeys) current() []v1alpha1.ClusterKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keys
}

// truncateKeys limits keys to the maximum of a TSNNode: the cluster's own key first, then those that nodes already have, then others. A
// TSNNode with more would be rejected.
func truncateKeys(keys, before []v1alpha1.ClusterKey) []v1alpha1.ClusterKey {
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

// needsEncryption reports whether any service or link has encryption.
func needsEncryption(in *links.Input) bool {
	return slices.ContainsFunc(in.Services, func(service v1alpha1.TSNService) bool { return service.Spec.Encrypted() }) ||
		slices.ContainsFunc(in.Links, func(link v1alpha1.TSNLink) bool { return link.Spec.Encrypted() })
}

// signNodes signs the nodes' keys if links need encryption. A node that has not reported keys gets none. Without the cluster's key, nodes
// keep the keys in existing links, so that all other links keep working; updateNodeKeys returns the error.
func (r *Links) signNodes(ctx context.Context, in *links.Input, states map[string]*v1alpha1.TSNNode) {
	if !needsEncryption(in) {
		return
	}
	private, err := r.shared.keys.clusterKey(ctx)
	if err != nil {
		keepKeys(in)
		return
	}
	r.learnSigned(private, in)
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

// keepKeys gives nodes of the cluster the newest of their keys in existing links.
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

// learnSigned learns from links the statements that this cluster signed about its nodes before.
func (r *Links) learnSigned(private *clusterkey.Private, in *links.Input) {
	for i := range in.Links {
		for _, end := range []*v1alpha1.LinkEnd{&in.Links[i].Spec.Client, &in.Links[i].Spec.Endpoint} {
			if end.NodeKeys != nil && end.NodeKeys.ClusterKey == private.Public().String() {
				r.shared.announced.learn(private, v1alpha1.LinkNetwork, *clusterkey.LinkNode(end.Node, end.NodeAddress, end.NodeKeys))
			}
		}
	}
}

// updateNodeKeys gives nodes with ends of encrypted links the cluster keys to trust at the other ends. Links that are not admitted do not
// count: otherwise a hub could make any node create keys, and have any cluster pinned.
func (r *Links) updateNodeKeys(ctx context.Context, in *links.Input, plan *links.Result) error {
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
		key, err := r.shared.keys.clusterKey(ctx)
		if err != nil {
			return err
		}
		// The links' conditions report a cluster whose key is not the pinned one.
		if keys, _, err = r.shared.keys.trustedKeys(ctx, key, nil, reportedClaims); err != nil {
			return err
		}
		keys = truncateKeys(keys, r.shared.links.current())
	}
	for _, node := range r.shared.links.set(nodes, keys) {
		r.shared.nodes.add(node, 0)
	}
	return nil
}
