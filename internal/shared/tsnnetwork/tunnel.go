// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// TunnelAddress is where a node's tunnels end: at the address of its annotation, else at its first InternalIP of IPv4.
// The error says why there is none.
func TunnelAddress(node *corev1.Node) (netip.Addr, error) {
	if given := node.Annotations[v1alpha1.TunnelAddressAnnotation]; given != "" {
		address, err := netip.ParseAddr(given)
		if err != nil || !address.Is4() {
			return netip.Addr{}, fmt.Errorf("annotation %s: %q is no IPv4 address", v1alpha1.TunnelAddressAnnotation, given)
		}
		return address, nil
	}
	for _, known := range node.Status.Addresses {
		address, err := netip.ParseAddr(known.Address)
		if known.Type == corev1.NodeInternalIP && err == nil && address.Is4() {
			return address, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("it has no IPv4 InternalIP; annotate it with %s", v1alpha1.TunnelAddressAnnotation)
}

// TunnelAddresses are those of all nodes, by name. One address has one node, the oldest; faults say why the others have none.
func TunnelAddresses(nodes []corev1.Node) (addresses map[string]netip.Addr, faults map[string]error) {
	addresses, faults = map[string]netip.Addr{}, map[string]error{}
	oldest := make([]*corev1.Node, len(nodes))
	for i := range nodes {
		oldest[i] = &nodes[i]
	}
	slices.SortFunc(oldest, func(a, b *corev1.Node) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	owner := make(map[netip.Addr]string, len(nodes))
	for _, node := range oldest {
		address, err := TunnelAddress(node)
		other, known := owner[address]
		switch {
		case err != nil:
			faults[node.Name] = err
		case known:
			faults[node.Name] = fmt.Errorf("its tunnel's address %s is node %s's; annotate it with another %s", address, other,
				v1alpha1.TunnelAddressAnnotation)
		default:
			addresses[node.Name], owner[address] = address, node.Name
		}
	}
	return addresses, faults
}
