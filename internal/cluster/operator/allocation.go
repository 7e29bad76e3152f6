// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"net/netip"
	"slices"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// allocateAll divides a network's ranges among those of the nodes that have pods on it, and that had a part before. A
// node has a part of each range or of none.
func allocateAll(network *v1alpha1.TSNNetwork, exist []string, used *usage) (parts []v1alpha1.NodeStatus, without []string, err error) {
	wanted := slices.DeleteFunc(used.nodes(), func(node string) bool { return !slices.Contains(exist, node) })
	have4, have6 := map[string]netip.Prefix{}, map[string]netip.Prefix{}
	for _, node := range network.Status.Nodes {
		// Those without stay invalid, and are no parts.
		have4[node.Name], _ = netip.ParsePrefix(node.IPv4)
		have6[node.Name], _ = netip.ParsePrefix(node.IPv6)
	}
	range4, err := newWhole(network.Spec.IPv4.CIDR, network.Spec.IPv4.NodePrefixLength)
	if err != nil {
		return nil, nil, err
	}
	parts4, without := range4.allocate(have4, exist, wanted)
	parts6 := map[string]netip.Prefix{}
	if network.Spec.IPv6 != nil {
		range6, err := newWhole(network.Spec.IPv6.CIDR, network.Spec.IPv6.NodePrefixLength)
		if err != nil {
			return nil, nil, err
		}
		wanted = slices.DeleteFunc(wanted, func(node string) bool { return slices.Contains(without, node) })
		var without6 []string
		parts6, without6 = range6.allocate(have6, exist, wanted)
		without = append(without, without6...)
	}
	slices.Sort(exist)
	for _, node := range exist {
		part4, part6 := parts4[node], parts6[node]
		if !part4.IsValid() || network.Spec.IPv6 != nil && !part6.IsValid() {
			continue
		}
		pods := used.onNode[node]
		status := v1alpha1.NodeStatus{Name: node, IPv4: part4.String(), Pods: &pods}
		if part6.IsValid() {
			status.IPv6 = part6.String()
		}
		parts = append(parts, status)
	}
	return parts, without, nil
}
