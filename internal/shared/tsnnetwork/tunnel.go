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
	if all := internalIPs(node); len(all) > 0 {
		return all[0], nil
	}
	return netip.Addr{}, fmt.Errorf("it has no IPv4 InternalIP; annotate it with %s", v1alpha1.TunnelAddressAnnotation)
}

// TunnelAddresses returns the tunnel addresses of all nodes by name; faults has the reasons why the others have none. One address has one node: the
// holder, as long as it claims the address; else a node of which it is an InternalIP; else the oldest that names it in its annotation. An annotation
// gives no node the InternalIP of another. holders are nodes with the addresses that they had before, nil where nobody knows.
func TunnelAddresses(nodes []corev1.Node, holders map[string]netip.Addr) (addresses map[string]netip.Addr, faults map[string]error) {
	addresses, faults = map[string]netip.Addr{}, map[string]error{}
	claims := make([]claim, 0, len(nodes))
	internal := make(map[netip.Addr]string, len(nodes))
	for i := range nodes {
		entry := claim{node: &nodes[i], rank: named}
		var err error
		if entry.address, err = TunnelAddress(entry.node); err != nil {
			faults[entry.node.Name] = err
		}
		for _, address := range internalIPs(entry.node) {
			internal[address] = entry.node.Name
			if address == entry.address {
				entry.rank = native
			}
		}
		if entry.address.IsValid() && holders[entry.node.Name] == entry.address {
			entry.rank = held
		}
		claims = append(claims, entry)
	}
	slices.SortFunc(claims, func(a, b claim) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), a.node.CreationTimestamp.Compare(b.node.CreationTimestamp.Time), strings.Compare(a.node.Name, b.node.Name))
	})
	owner := make(map[netip.Addr]string, len(nodes))
	for _, claim := range claims {
		name := claim.node.Name
		other, known := owner[claim.address]
		switch {
		case faults[name] != nil:
		case claim.rank == named && internal[claim.address] != "":
			faults[name] = fmt.Errorf("annotation %s: %s is the InternalIP of node %s; give it an address of this node", v1alpha1.TunnelAddressAnnotation,
				claim.address, internal[claim.address])
		case known:
			faults[name] = fmt.Errorf("its tunnel's address %s is node %s's; annotate it with another %s", claim.address, other,
				v1alpha1.TunnelAddressAnnotation)
		default:
			addresses[name], owner[claim.address] = claim.address, name
		}
	}
	return addresses, faults
}

// claim is a node that wants an address.
type claim struct {
	node    *corev1.Node
	address netip.Addr
	rank    int
}

// Ranks of claims: the first one gets the address.
const (
	held = iota
	native
	named
)

// internalIPs returns the node's InternalIPs of IPv4.
func internalIPs(node *corev1.Node) (addresses []netip.Addr) {
	for _, known := range node.Status.Addresses {
		address, err := netip.ParseAddr(known.Address)
		if known.Type == corev1.NodeInternalIP && err == nil && address.Is4() {
			addresses = append(addresses, address)
		}
	}
	return addresses
}
