// SPDX-License-Identifier: Apache-2.0

package links

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"strconv"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// pool allocates VNIs, addresses and interface names of links, always the lowest free one.
type pool struct {
	vnis map[int32]bool
	// pairs are the ranges of two addresses, /31 and /127.
	pairs map[netip.Prefix]bool
	// interfaces are indexed by the pod's UID and the interface name.
	interfaces map[[2]string]bool
	// nextVNI and nextPair are lower bounds of the next free one, by range.
	nextVNI  map[int32]int32
	nextPair map[netip.Prefix]uint64
	// nextInterface is the same, by the pod's UID and the prefix.
	nextInterface  map[string]map[string]int
	firstInterface int
}

func newPool(in *Input) *pool {
	p := &pool{vnis: map[int32]bool{}, pairs: map[netip.Prefix]bool{}, interfaces: map[[2]string]bool{},
		nextVNI: map[int32]int32{}, nextPair: map[netip.Prefix]uint64{}, nextInterface: map[string]map[string]int{}, firstInterface: in.FirstInterface}
	for i := range in.Networks {
		p.vnis[in.Networks[i].Spec.VNI] = true
	}
	for i := range in.Released {
		p.reserveNumbers(&in.Released[i])
	}
	for i := range in.Links {
		p.reserve(&in.Links[i])
	}
	return p
}

// reserveNumbers marks VNI and addresses of a link as used.
func (p *pool) reserveNumbers(link *v1alpha1.TSNLink) {
	p.vnis[link.Spec.VNI] = true
	for _, prefix := range parsePrefixes(link.Spec.Client.Addresses...) {
		p.pairs[prefix.Masked()] = true
	}
}

// reserve marks VNI, addresses and interfaces of a link as used.
func (p *pool) reserve(link *v1alpha1.TSNLink) {
	p.reserveNumbers(link)
	for _, end := range []*v1alpha1.LinkEnd{&link.Spec.Client, &link.Spec.Endpoint} {
		p.interfaces[[2]string{end.UID, end.Interface}] = true
	}
}

// release releases the interfaces of a link that will be deleted. Nodes may still have its VNI and addresses.
func (p *pool) release(link *v1alpha1.TSNLink) {
	for _, end := range []*v1alpha1.LinkEnd{&link.Spec.Client, &link.Spec.Endpoint} {
		delete(p.interfaces, [2]string{end.UID, end.Interface})
		delete(p.nextInterface, end.UID)
	}
}

// vni returns the lowest free VNI of a range.
func (p *pool) vni(first, last int32) (int32, bool) {
	next := max(first, p.nextVNI[first])
	for ; next <= last; next++ {
		if !p.vnis[next] {
			p.nextVNI[first] = next
			return next, true
		}
	}
	p.nextVNI[first] = next
	return 0, false
}

// pair returns the lowest free pair of addresses of a range.
func (p *pool) pair(prefix netip.Prefix) (netip.Prefix, bool) {
	length := prefix.Addr().BitLen() - 1
	count := uint64(1) << min(length-prefix.Bits(), 62)
	next := p.nextPair[prefix]
	if prefix.Addr().Is6() {
		next = max(next, 1) // skip the subnet-router anycast address (RFC 4291, 2.6.1)
	}
	for ; next < count; next++ {
		if pair := pairOf(prefix.Addr(), next, length); !p.pairs[pair] {
			p.nextPair[prefix] = next
			return pair, true
		}
	}
	p.nextPair[prefix] = next
	return netip.Prefix{}, false
}

// pairOf returns the pair of addresses with a number, counted from the first address of a range.
func pairOf(first netip.Addr, number uint64, length int) netip.Prefix {
	if first.Is4() {
		text := first.As4()
		binary.BigEndian.PutUint32(text[:], binary.BigEndian.Uint32(text[:])+uint32(number<<1))
		return netip.PrefixFrom(netip.AddrFrom4(text), length)
	}
	text := first.As16()
	low, carry := bits.Add64(binary.BigEndian.Uint64(text[8:]), number<<1, 0)
	binary.BigEndian.PutUint64(text[8:], low)
	binary.BigEndian.PutUint64(text[:8], binary.BigEndian.Uint64(text[:8])+carry)
	return netip.PrefixFrom(netip.AddrFrom16(text), length)
}

// endpointInterface returns the interface name with the lowest free number for a prefix in a pod.
func (p *pool) endpointInterface(uid, prefix string) string {
	if p.nextInterface[uid] == nil {
		p.nextInterface[uid] = map[string]int{}
	}
	for number := max(p.firstInterface, p.nextInterface[uid][prefix]); ; number++ {
		name := prefix + strconv.Itoa(number)
		if !p.interfaces[[2]string{uid, name}] {
			p.nextInterface[uid][prefix] = number
			return name
		}
	}
}
