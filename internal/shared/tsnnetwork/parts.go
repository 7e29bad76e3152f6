// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"fmt"
	"net/netip"
	"slices"
)

// Range is a range that is divided into node subnets.
type Range struct {
	prefix netip.Prefix
	// nodeBits is the prefix length of a node subnet.
	nodeBits int
	// static belongs to no node; invalid for none.
	static netip.Prefix
}

// NewRange returns a range that is divided into subnets of a prefix length.
func NewRange(cidr string, nodeBits int32) (Range, error) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return Range{}, fmt.Errorf("range %q is invalid: %w", cidr, err)
	}
	bits := int(nodeBits) - prefix.Bits()
	if bits < 0 || bits > 16 || int(nodeBits) > prefix.Addr().BitLen() {
		return Range{}, fmt.Errorf("range %s cannot be divided into subnets of /%d", cidr, nodeBits)
	}
	return Range{prefix: prefix.Masked(), nodeBits: int(nodeBits)}, nil
}

// Without returns the range without subnets that overlap the static one, which may be invalid. Nodes with pods keep theirs.
func (w Range) Without(static netip.Prefix) Range {
	w.static = static
	return w
}

// isStatic reports whether a subnet overlaps the static one.
func (w Range) isStatic(number int) bool {
	return w.static.IsValid() && w.static.Overlaps(w.Subnet(number))
}

// count returns the number of subnets.
func (w Range) count() int { return 1 << (w.nodeBits - w.prefix.Bits()) }

// Subnet returns the subnet with a number, counted from 0.
func (w Range) Subnet(number int) netip.Prefix {
	address := w.prefix.Addr().AsSlice()
	for bit := w.nodeBits - 1; number > 0; bit-- {
		address[bit/8] |= byte(number&1) << (7 - bit%8)
		number >>= 1
	}
	start, _ := netip.AddrFromSlice(address) // it has the length of an address
	return netip.PrefixFrom(start, w.nodeBits)
}

// number returns the number of a subnet, -1 if the prefix is not a subnet of the range.
func (w Range) number(prefix netip.Prefix) int {
	if !prefix.IsValid() || prefix.Bits() != w.nodeBits || prefix != prefix.Masked() || !w.prefix.Contains(prefix.Addr()) {
		return -1
	}
	number, address := 0, prefix.Addr().AsSlice()
	for bit := w.prefix.Bits(); bit < w.nodeBits; bit++ {
		number = number<<1 | int(address[bit/8]>>(7-bit%8)&1)
	}
	return number
}

// Allocate allocates a subnet to each wanted node. Existing nodes keep their subnets, wanted or not; if none is left, subnets are taken
// from nodes that are not wanted. without lists the wanted nodes that get none.
func (w Range) Allocate(existing map[string]netip.Prefix, nodes, wanted []string) (subnets map[string]netip.Prefix, without []string) {
	numbered := make(map[string]int, len(existing))
	for node, part := range existing {
		numbered[node] = w.number(part)
	}
	numbers, without := allocateNumbers(w.count(), w.isStatic, numbered, nodes, wanted)
	subnets = make(map[string]netip.Prefix, len(numbers))
	for node, number := range numbers {
		subnets[node] = w.Subnet(number)
	}
	return subnets, without
}

// AllocateNumbers does the same for numbers from 0 to count-1. Existing numbers out of range are not kept.
func AllocateNumbers(count int, existing map[string]int, nodes, wanted []string) (numbers map[string]int, without []string) {
	return allocateNumbers(count, func(int) bool { return false }, existing, nodes, wanted)
}

// allocateNumbers allocates no reserved number; wanted nodes keep those that they have.
func allocateNumbers(count int, reserved func(int) bool, existing map[string]int, nodes, wanted []string) (numbers map[string]int, without []string) {
	numbers = map[string]int{}
	used := map[int]bool{}
	wanted = slices.Sorted(slices.Values(wanted))
	var idle []string
	for _, node := range slices.Sorted(slices.Values(nodes)) {
		if _, ok := slices.BinarySearch(wanted, node); !ok {
			idle = append(idle, node)
		}
	}
	// Nodes that need a subnet come first, in case two have the same one.
	for at, node := range slices.Concat(wanted, idle) {
		number, allocated := existing[node]
		if allocated && number >= 0 && number < count && !used[number] && (at < len(wanted) || !reserved(number)) {
			numbers[node], used[number] = number, true
		}
	}
	next := 0
	for _, node := range wanted {
		if _, allocated := numbers[node]; allocated {
			continue
		}
		for next < count && (used[next] || reserved(next)) {
			next++
		}
		switch {
		case next < count:
			numbers[node], used[next] = next, true
		case !takeFrom(&idle, numbers, node):
			without = append(without, node)
		}
	}
	return numbers, without
}

// takeFrom gives a node the number of the first idle node that has one.
func takeFrom(idle *[]string, numbers map[string]int, node string) bool {
	for len(*idle) > 0 {
		from := (*idle)[0]
		*idle = (*idle)[1:]
		if number, allocated := numbers[from]; allocated {
			delete(numbers, from)
			numbers[node] = number
			return true
		}
	}
	return false
}
