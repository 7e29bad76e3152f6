// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"net/netip"
	"slices"
)

// whole is a range that is divided among nodes.
type whole struct {
	prefix netip.Prefix
	// nodeBits is the prefix length of a part.
	nodeBits int
}

func newWhole(cidr string, nodeBits int32) (whole, error) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return whole{}, fmt.Errorf("range %q is none: %w", cidr, err)
	}
	bits := int(nodeBits) - prefix.Bits()
	if bits < 0 || bits > 16 || int(nodeBits) > prefix.Addr().BitLen() {
		return whole{}, fmt.Errorf("range %s cannot be divided into parts of /%d", cidr, nodeBits)
	}
	return whole{prefix.Masked(), int(nodeBits)}, nil
}

// count is how many parts there are.
func (w whole) count() int { return 1 << (w.nodeBits - w.prefix.Bits()) }

// part is the part with a number, from 0.
func (w whole) part(number int) netip.Prefix {
	address := w.prefix.Addr().AsSlice()
	for bit := w.nodeBits - 1; number > 0; bit-- {
		address[bit/8] |= byte(number&1) << (7 - bit%8)
		number >>= 1
	}
	made, _ := netip.AddrFromSlice(address) // it has the length of an address
	return netip.PrefixFrom(made, w.nodeBits)
}

// has tells whether a prefix is a part.
func (w whole) has(prefix netip.Prefix) bool {
	return prefix.IsValid() && prefix.Bits() == w.nodeBits && prefix == prefix.Masked() && w.prefix.Contains(prefix.Addr())
}

// allocate gives each wanted node a part. Nodes keep what they have, wanted or not, as long as they exist; when nothing
// is left, it is taken from nodes that are not wanted. without are the wanted nodes that get none.
func (w whole) allocate(have map[string]netip.Prefix, exist, wanted []string) (parts map[string]netip.Prefix, without []string) {
	parts = map[string]netip.Prefix{}
	owner := map[netip.Prefix]string{}
	wanted = slices.Sorted(slices.Values(wanted))
	var idle []string
	for _, node := range slices.Sorted(slices.Values(exist)) {
		if _, is := slices.BinarySearch(wanted, node); !is {
			idle = append(idle, node)
		}
	}
	// Those that are wanted first, in case two should have the same.
	for _, node := range slices.Concat(wanted, idle) {
		if part := have[node]; w.has(part) && owner[part] == "" {
			parts[node], owner[part] = part, node
		}
	}
	next := 0
	for _, node := range wanted {
		if parts[node].IsValid() {
			continue
		}
		for next < w.count() && owner[w.part(next)] != "" {
			next++
		}
		switch part := w.part(min(next, w.count()-1)); {
		case next < w.count():
			parts[node], owner[part] = part, node
		case !takeFrom(&idle, parts, node):
			without = append(without, node)
		}
	}
	return parts, without
}

// takeFrom gives a node the part of the first idle one that has any.
func takeFrom(idle *[]string, parts map[string]netip.Prefix, node string) bool {
	for len(*idle) > 0 {
		from := (*idle)[0]
		*idle = (*idle)[1:]
		if part, has := parts[from]; has {
			delete(parts, from)
			parts[node] = part
			return true
		}
	}
	return false
}
