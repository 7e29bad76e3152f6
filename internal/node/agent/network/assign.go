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

// Node is what decides about a node's part of the networks.
type Node struct {
	Name    string
	Created time.Time
	// PodCIDR is the node's part of the cluster's first network; invalid in clusters where nodes have none.
	PodCIDR netip.Prefix
	// Given are parts that somebody assigned, by network.
	Given map[string]string
}

// Assign gives each node its parts of the network, one a range: those that somebody assigned, else the ones with the
// number that the node's pod CIDR has among all pod CIDRs of its size. Nodes that cannot have any are in faults, by name,
// and the others are not touched by that. Of parts that overlap the one goes that overlaps more others, and of two the
// younger node's: so a mistake on one node costs that node its part and no other.
func Assign(n *Network, nodes []Node) (assigned map[string][]netip.Prefix, faults map[string]error) {
	assigned, faults = map[string][]netip.Prefix{}, map[string]error{}
	for i := range nodes {
		parts, err := n.partsOf(&nodes[i])
		if err != nil {
			faults[nodes[i].Name] = err
			continue
		}
		assigned[nodes[i].Name] = parts
	}
	youngestFirst := slices.SortedFunc(slices.Values(nodes), func(a, b Node) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(b.Name, a.Name))
	})
	met := overlaps(assigned)
	for len(met) > 0 {
		worst := ""
		for _, node := range youngestFirst {
			if len(met[node.Name]) > len(met[worst]) {
				worst = node.Name
			}
		}
		faults[worst] = met[worst][slices.Min(slices.Collect(maps.Keys(met[worst])))]
		delete(assigned, worst)
		for other := range met[worst] {
			if delete(met[other], worst); len(met[other]) == 0 {
				delete(met, other)
			}
		}
		delete(met, worst)
	}
	return assigned, faults
}

// overlaps says of each node whose parts overlap others', with which nodes' and how.
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
	// Prefixes overlap only when one holds the other; behind the wider one, which comes first, stand those that it holds.
	slices.SortFunc(all, func(a, b owned) int {
		return cmp.Or(a.part.Addr().Compare(b.part.Addr()), cmp.Compare(a.part.Bits(), b.part.Bits()))
	})
	met := map[string]map[string]error{}
	note := func(of, with owned) {
		if met[of.node] == nil {
			met[of.node] = map[string]error{}
		}
		met[of.node][with.node] = fmt.Errorf("its %s and %s of node %s overlap; annotate one of them with %s and the network's name",
			of.part, with.part, with.node, RangeAnnotation)
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
	return met
}

func (n *Network) partsOf(node *Node) ([]netip.Prefix, error) {
	if given := node.Given[n.Name]; given != "" {
		return n.readGiven(given)
	}
	if !node.PodCIDR.IsValid() {
		return nil, fmt.Errorf("it has no spec.podCIDR from which one would follow; annotate it with %s%s", RangeAnnotation, n.Name)
	}
	// The first range's number serves the others as well, so that one node's parts look alike.
	number := numberOf(node.PodCIDR) & n.Ranges[0].lastPart()
	var parts []netip.Prefix
	for _, r := range n.Ranges {
		parts = append(parts, r.part(number))
	}
	return parts, nil
}

// readGiven reads the value of the annotation: a prefix for each range of the network, between commas.
func (n *Network) readGiven(text string) ([]netip.Prefix, error) {
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
			return nil, fmt.Errorf("annotation %s%s: %q is no part of %s", RangeAnnotation, n.Name, word, whole)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// numberOf is the last 32 bits in front of the end of the prefix, as a number.
func numberOf(prefix netip.Prefix) uint64 {
	address := prefix.Addr().AsSlice()
	var number uint64
	for bit := max(0, prefix.Bits()-32); bit < prefix.Bits(); bit++ {
		number = number<<1 | uint64(address[bit/8]>>(7-bit%8)&1)
	}
	return number
}
