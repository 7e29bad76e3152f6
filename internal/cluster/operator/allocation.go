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

// allocateSubnets allocates subnets of a network's ranges, or of this cluster's parts of them, to the nodes with pods on it. A node has a
// subnet of each range or of none. It keeps its subnet while excluded pods run there, because they still have its addresses. without lists
// the nodes for which no subnet is left.
func allocateSubnets(network *v1alpha1.TSNNetwork, allocated map[string]subnet, nodes *nodeSet, used *usage) (subnets map[string]subnet, without []string, err error) {
	existing := slices.Collect(maps.Keys(nodes.all))
	var wanted []string
	for node := range used.onNode {
		if nodes.all[node] != nil {
			wanted = append(wanted, node)
		}
	}
	for node := range used.retained {
		if _, retained := allocated[node]; retained && used.onNode[node] == 0 && nodes.all[node] != nil {
			wanted = append(wanted, node)
		}
	}
	allocated4, allocated6 := map[string]netip.Prefix{}, map[string]netip.Prefix{}
	for node, part := range allocated {
		// A missing range stays invalid and is not allocated.
		allocated4[node], allocated6[node] = part.ipv4, part.ipv6
	}
	range4, err := tsnnetwork.NewRange(cmp.Or(network.Spec.IPv4.Part, network.Spec.IPv4.CIDR), network.Spec.IPv4.NodePrefixLength)
	if err != nil {
		return nil, nil, err
	}
	subnets4, without := range4.Allocate(allocated4, existing, wanted)
	subnets6 := map[string]netip.Prefix{}
	if network.Spec.IPv6 != nil {
		range6, err := tsnnetwork.NewRange(cmp.Or(network.Spec.IPv6.Part, network.Spec.IPv6.CIDR), network.Spec.IPv6.NodePrefixLength)
		if err != nil {
			return nil, nil, err
		}
		wanted = slices.DeleteFunc(wanted, func(node string) bool { return slices.Contains(without, node) })
		var without6 []string
		subnets6, without6 = range6.Allocate(allocated6, existing, wanted)
		without = append(without, without6...)
	}
	subnets = make(map[string]subnet, len(subnets4))
	for node, part4 := range subnets4 {
		part6 := subnets6[node]
		if network.Spec.IPv6 == nil || part6.IsValid() {
			subnets[node] = subnet{part4, part6}
		}
	}
	return subnets, without, nil
}
