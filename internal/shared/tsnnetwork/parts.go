// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"fmt"
	"net/netip"
	"slices"
)

// Whole is a range that is divided among nodes.
type Whole struct {
	prefix netip.Prefix
	// nodeBits is the prefix length of a part.
	nodeBits int
}

// NewWhole divides a range into parts of a prefix length.
func NewWhole(cidr string, nodeBits int32) (Whole, error) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return Whole{}, fmt.Errorf("range %q is none: %w", cidr, err)
	}
	bits := int(nodeBits) - prefix.Bits()
	if bits < 0 || bits > 16 || int(nodeBits) > prefix.Addr().BitLen() {
		return Whole{}, fmt.Errorf("range %s cannot be divided into parts of /%d", cidr, nodeBits)
	}
	return Whole{prefix.Masked(), int(nodeBits)}, nil
}

// count is how many parts there are.
func (w Whole) count() int { return 1 << (w.nodeBits - w.prefix.Bits()) }

// Part is the part with a number, from 0.
func (w Whole) Part(number int) netip.Prefix {
	address := w.prefix.Addr().AsSlice()
	for bit := w.nodeBits - 1; number > 0; bit-- {
		address[bit/8] |= byte(number&1) << (7 - bit%8)
		number >>= 1
	}
	createdAddress, _ := netip.AddrFromSlice(address) // it has the length of an address
	return netip.PrefixFrom(createdAddress, w.nodeBits)
}

// number is that of a part, -1 if a prefix is none.
func (w Whole) number(prefix netip.Prefix) int {
	if !prefix.IsValid() || prefix.Bits() != w.nodeBits || prefix != prefix.Masked() || !w.prefix.Contains(prefix.Addr()) {
		return -1
	}
	number, address := 0, prefix.Addr().AsSlice()
	for bit := w.prefix.Bits(); bit < w.nodeBits; bit++ {
		number = number<<1 | int(address[bit/8]>>(7-bit%8)&1)
	}
	return number
}

// Allocate gives each wanted node a part. Nodes keep what they have, wanted or not, as long as they exist; when nothing
// is left, it is taken from nodes that are not wanted. without are the wanted nodes that get none.
func (w Whole) Allocate(have map[string]netip.Prefix, exist, wanted []string) (parts map[string]netip.Prefix, without []string) {
	numbered := make(map[string]int, len(have))
	for node, part := range have {
		numbered[node] = w.number(part)
	}
	numbers, without := AllocateNumbers(w.count(), numbered, exist, wanted)
	parts = make(map[string]netip.Prefix, len(numbers))
	for node, number := range numbers {
		parts[node] = w.Part(number)
	}
	return parts, without
}

// AllocateNumbers does this for parts that are numbered from 0. What is no number of a part is not kept.
func AllocateNumbers(count int, have map[string]int, exist, wanted []string) (numbers map[string]int, without []string) {
	numbers = map[string]int{}
	used := map[int]bool{}
	wanted = slices.Sorted(slices.Values(wanted))
	var idle []string
	for _, node := range slices.Sorted(slices.Values(exist)) {
		if _, ok := slices.BinarySearch(wanted, node); !ok {
			idle = append(idle, node)
		}
	}
	// Nodes that need a subnet come first, in case two have the same one.
	for _, node := range slices.Concat(wanted, idle) {
		if number, has := have[node]; has && number >= 0 && number < count && !used[number] {
			numbers[node], used[number] = number, true
		}
	}
	next := 0
	for _, node := range wanted {
		if _, has := numbers[node]; has {
			continue
		}
		for next < count && used[next] {
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

// takeFrom gives a node the part of the first idle one that has any.
func takeFrom(idle *[]string, numbers map[string]int, node string) bool {
	for len(*idle) > 0 {
		from := (*idle)[0]
		*idle = (*idle)[1:]
		if number, has := numbers[from]; has {
			delete(numbers, from)
			numbers[node] = number
			return true
		}
	}
	return false
}
