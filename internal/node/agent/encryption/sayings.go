// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
)

// addSaying adds what a link says of a node, unless another one says the same.
func addSaying(all []*v1alpha1.LinkNodeKeys, one *v1alpha1.LinkNodeKeys) []*v1alpha1.LinkNodeKeys {
	if one == nil || slices.ContainsFunc(all, func(other *v1alpha1.LinkNodeKeys) bool { return equality.Semantic.DeepEqual(one, other) }) {
		return all
	}
	return append(all, one)
}

// believed is the latest of what links say of a node and its cluster has signed. Where that has signed nothing of it, it is the first, for people
// to be told of, and nil where nothing is said.
func believed(keys map[string]clusterkey.Public, cluster, node string, address netip.Addr, all []*v1alpha1.LinkNodeKeys) (found *v1alpha1.LinkNodeKeys) {
	key, pinned := keys[cluster]
	for _, one := range all {
		signed := pinned && (one.ClusterKey == "" || one.ClusterKey == key.String()) &&
			key.Verify(v1alpha1.LinkNetwork, clusterkey.LinkNode(node, address.String(), one)) == nil
		if signed && (found == nil || one.Sequence > found.Sequence) {
			found = one
		}
	}
	if found == nil && len(all) > 0 {
		return all[0]
	}
	return found
}
