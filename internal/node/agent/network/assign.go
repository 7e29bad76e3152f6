// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Node has the properties that determine a node's subnets.
type Node struct {
	Name    string
	Created time.Time
	// PodCIDR is the node's subnet of the cluster's default network; invalid if it has none.
	PodCIDR netip.Prefix
	// Assigned are annotated subnets, by network.
	Assigned map[string]string
}

// Assign returns each node's subnets of the network, one per range: the annotated ones, otherwise those with the number
// of the node's pod CIDR among all pod CIDRs of its size. Nodes without subnets are in faults, by name, and do not
// affect the others. If subnets overlap, the node with the most conflicts loses its subnets, and of two equal ones the
// younger: a mistake on one node costs that node its subnets and no other.
func Assign(n *Network, nodes []Node) (assigned map[string][]netip.Prefix, faults map[string]error) {
	assigned, faults = map[string][]netip.Prefix{}, map[string]error{}
	for i := range nodes {
		parts, err := n.subnetsOf(&nodes[i])
		if err != nil {
			faults[nodes[i].Name] = err
			continue
		}
		assigned[nodes[i].Name] = parts
	}
	youngestFirst := slices.SortedFunc(slices.Values(nodes), func(a, b Node) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(b.Name, a.Name))
	})
	conflicts := overlaps(assigned)
	for len(conflicts) > 0 {
		worst := ""
		for _, node := range youngestFirst {
			if len(conflicts[node.Name]) > len(conflicts[worst]) {
				worst = node.Name
			}
		}
		faults[worst] = conflicts[worst][slices.Min(slices.Collect(maps.Keys(conflicts[worst])))]
		delete(assigned, worst)
		for other := range conflicts[worst] {
			if delete(conflicts[other], worst); len(conflicts[other]) == 0 {
				delete(conflicts, other)
			}
		}
		delete(conflicts, worst)
	}
	return assigned, faults
}

// overlaps returns for each node the nodes whose subnets overlap its own.
func overlaps(assigned map[string][]netip.Prefix) map[string]map[string]error {
	type owned struct {
		part netip.Prefix
		node string
	}
	var all []owned
	for node, parts := range assigned {
		for _, part := range parts {
			all = append(all, owned{part, node})
		}
	}
	// Prefixes overlap only if one contains the other: the wider one comes first, followed by those that it contains.
	slices.SortFunc(all, func(a, b owned) int {
		return cmp.Or(a.part.Addr().Compare(b.part.Addr()), cmp.Compare(a.part.Bits(), b.part.Bits()))
	})
	conflicts := map[string]map[string]error{}
	note := func(owner, with owned) {
		if conflicts[owner.node] == nil {
			conflicts[owner.node] = map[string]error{}
		}
		conflicts[owner.node][with.node] = fmt.Errorf("its %s and %s of node %s overlap; annotate one of them with %s and the network's name",
			owner.part, with.part, with.node, RangeAnnotation)
	}
	for i, wide := range all {
		for _, held := range all[i+1:] {
			if !wide.part.Overlaps(held.part) {
				break
			}
			if wide.node != held.node {
				note(wide, held)
				note(held, wide)
			}
		}
	}
	return conflicts
}

func (n *Network) subnetsOf(node *Node) ([]netip.Prefix, error) {
	if given := node.Assigned[n.Name]; given != "" {
		return n.parseAssigned(given)
	}
	if !node.PodCIDR.IsValid() {
		return nil, fmt.Errorf("it has no spec.podCIDR to derive one from; annotate it with %s%s", RangeAnnotation, n.Name)
	}
	// All ranges use the number of the first, so that a node's subnets look alike.
	number := numberOf(node.PodCIDR) & n.Ranges[0].lastSubnet()
	var parts []netip.Prefix
	for _, r := range n.Ranges {
		parts = append(parts, r.subnet(number))
	}
	return parts, nil
}

// parseAssigned parses the annotation: a prefix for each range of the network, separated by commas.
func (n *Network) parseAssigned(text string) ([]netip.Prefix, error) {
	words := strings.Split(text, ",")
	if len(words) != len(n.Ranges) {
		return nil, fmt.Errorf("annotation %s%s has %d prefixes; give one for each of the network's %d ranges", RangeAnnotation, n.Name,
			len(words), len(n.Ranges))
	}
	var parts []netip.Prefix
	for i, word := range words {
		part, err := netip.ParsePrefix(strings.TrimSpace(word))
		whole := n.Ranges[i].Prefix
		if err != nil || part.Masked() != part || part.Bits() <= whole.Bits() || !whole.Contains(part.Addr()) {
			return nil, fmt.Errorf("annotation %s%s: %q is not a subnet of %s", RangeAnnotation, n.Name, word, whole)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// numberOf returns the last 32 bits of the prefix (without the host bits) as a number.
func numberOf(prefix netip.Prefix) uint64 {
	address := prefix.Addr().AsSlice()
	var number uint64
	for bit := max(0, prefix.Bits()-32); bit < prefix.Bits(); bit++ {
		number = number<<1 | uint64(address[bit/8]>>(7-bit%8)&1)
	}
	return number
}
