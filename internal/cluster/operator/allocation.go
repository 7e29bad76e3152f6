// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// allocateAll divides a network's ranges, or this cluster's parts of them, among those of the nodes that have pods on it, and that had a part before. A
// node has a part of each range or of none. A node keeps its part while pods run there that do not count any more: they still have its addresses.
func allocateAll(network *v1alpha1.TSNNetwork, have map[string]part, nodes *nodeSet, used *usage) (parts map[string]part, without []string, err error) {
	exist := slices.Collect(maps.Keys(nodes.all))
	var wanted []string
	for node := range used.onNode {
		if nodes.all[node] != nil {
			wanted = append(wanted, node)
		}
	}
	for node := range used.keeps {
		if _, has := have[node]; has && used.onNode[node] == 0 && nodes.all[node] != nil {
			wanted = append(wanted, node)
		}
	}
	have4, have6 := map[string]netip.Prefix{}, map[string]netip.Prefix{}
	for node, part := range have {
		// A missing range stays invalid and is not allocated.
		have4[node], have6[node] = part.ipv4, part.ipv6
	}
	range4, err := tsnnetwork.NewWhole(cmp.Or(network.Spec.IPv4.Part, network.Spec.IPv4.CIDR), network.Spec.IPv4.NodePrefixLength)
	if err != nil {
		return nil, nil, err
	}
	parts4, without := range4.Allocate(have4, exist, wanted)
	parts6 := map[string]netip.Prefix{}
	if network.Spec.IPv6 != nil {
		range6, err := tsnnetwork.NewWhole(cmp.Or(network.Spec.IPv6.Part, network.Spec.IPv6.CIDR), network.Spec.IPv6.NodePrefixLength)
		if err != nil {
			return nil, nil, err
		}
		wanted = slices.DeleteFunc(wanted, func(node string) bool { return slices.Contains(without, node) })
		var without6 []string
		parts6, without6 = range6.Allocate(have6, exist, wanted)
		without = append(without, without6...)
	}
	parts = make(map[string]part, len(parts4))
	for node, part4 := range parts4 {
		part6 := parts6[node]
		if network.Spec.IPv6 == nil || part6.IsValid() {
			parts[node] = part{part4, part6}
		}
	}
	return parts, without, nil
}
