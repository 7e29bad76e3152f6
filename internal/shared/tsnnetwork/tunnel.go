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

// TunnelAddress returns a node's tunnel address: the address in its annotation, or its first IPv4 InternalIP. It returns an error if there
// is none.
func TunnelAddress(node *corev1.Node) (netip.Addr, error) {
	if annotation := node.Annotations[v1alpha1.TunnelAddressAnnotation]; annotation != "" {
		address, err := netip.ParseAddr(annotation)
		if err != nil || !address.Is4() {
			return netip.Addr{}, fmt.Errorf("annotation %s: %q is not an IPv4 address", v1alpha1.TunnelAddressAnnotation, annotation)
		}
		return address, nil
	}
	if all := internalIPs(node); len(all) > 0 {
		return all[0], nil
	}
	return netip.Addr{}, fmt.Errorf("it has no IPv4 InternalIP; annotate it with %s", v1alpha1.TunnelAddressAnnotation)
}

// TunnelAddresses returns the tunnel addresses of all nodes by name; faults has the reasons why the other nodes have none. Each address has
// one node: its holder, as long as it claims the address; else a node with this InternalIP; else the oldest node that has it in its
// annotation. An annotation cannot claim the InternalIP of another node. holders are the previous addresses by node, nil if unknown.
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
			faults[name] = fmt.Errorf("its tunnel address %s belongs to node %s; annotate it with another %s", claim.address, other,
				v1alpha1.TunnelAddressAnnotation)
		default:
			addresses[name], owner[claim.address] = claim.address, name
		}
	}
	return addresses, faults
}

// claim is a node's claim of an address.
type claim struct {
	node    *corev1.Node
	address netip.Addr
	rank    int
}

// Ranks of claims: the lowest gets the address.
const (
	held = iota
	native
	named
)

// internalIPs returns the node's IPv4 InternalIPs.
func internalIPs(node *corev1.Node) (addresses []netip.Addr) {
	for _, known := range node.Status.Addresses {
		address, err := netip.ParseAddr(known.Address)
		if known.Type == corev1.NodeInternalIP && err == nil && address.Is4() {
			addresses = append(addresses, address)
		}
	}
	return addresses
}
