// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Node is what decides about a node's part of the networks.
type Node struct {
	Name    string
	Created time.Time
	// Address is the tunnel's end there; invalid if the node has told none.
	Address netip.Addr
	// PodCIDR is the node's part of the cluster's first network; invalid in clusters where nodes have none.
	PodCIDR netip.Prefix
	// Given are parts that somebody assigned, by network.
	Given map[string]string
}

// Assign gives each node its parts of the network, one a range: those that somebody assigned, else the ones with the
// number that the node's pod CIDR has among all pod CIDRs of its size. Nodes that cannot have any are in the error;
// when two would have the same, the older one keeps it.
func Assign(n *Network, nodes []Node) (map[string][]netip.Prefix, error) {
	if n.Assigned != nil {
		return n.assigned(nodes), nil
	}
	ordered := slices.SortedFunc(slices.Values(nodes), func(a, b Node) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
	assigned := map[string][]netip.Prefix{}
	var all error
	for _, node := range ordered {
		parts, err := n.partsOf(&node)
		if err == nil {
			err = unlike(parts, assigned)
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("node %s has no part of network %s: %w", node.Name, n.Name, err))
			continue
		}
		assigned[node.Name] = parts
	}
	return assigned, all
}

// assigned are the parts that nodes have been given. Those without need none.
func (n *Network) assigned(nodes []Node) map[string][]netip.Prefix {
	parts := map[string][]netip.Prefix{}
	for _, node := range nodes {
		if given := n.Assigned[node.Name]; given != nil {
			parts[node.Name] = given
		}
	}
	return parts
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

// RangeAnnotation and the name of a network is the annotation of a Node that assigns it a part of the network.
const RangeAnnotation = "range.kubernetsn.io/"

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

func unlike(parts []netip.Prefix, assigned map[string][]netip.Prefix) error {
	for other, theirs := range assigned {
		for _, part := range parts {
			for _, their := range theirs {
				if part.Overlaps(their) {
					return fmt.Errorf("its %s and %s of node %s overlap; annotate one of them", part, their, other)
				}
			}
		}
	}
	return nil
}
