// SPDX-License-Identifier: Apache-2.0

package links

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"strconv"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// pool knows what links have, so that no two have one number, address or interface. The lowest that is free is taken.
type pool struct {
	vnis map[int32]bool
	// pairs are the ranges of two addresses, /31 and /127.
	pairs map[netip.Prefix]bool
	// interfaces are by the pod's UID and the name.
	interfaces map[[2]string]bool
	// nextVNI and nextPair are below the lowest that can be free, by the first of the range.
	nextVNI  map[int32]int32
	nextPair map[netip.Prefix]uint64
	// nextInterface is the same by the pod's UID, and the prefix.
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
		p.number(&in.Released[i])
	}
	for i := range in.Links {
		p.take(&in.Links[i])
	}
	return p
}

// number marks VNI and addresses of a link as used.
func (p *pool) number(link *v1alpha1.TSNLink) {
	p.vnis[link.Spec.VNI] = true
	for _, text := range link.Spec.Client.Addresses {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			p.pairs[prefix.Masked()] = true
		}
	}
}

// take marks all that a link has as used.
func (p *pool) take(link *v1alpha1.TSNLink) {
	p.number(link)
	for _, end := range []*v1alpha1.LinkEnd{&link.Spec.Client, &link.Spec.Endpoint} {
		p.interfaces[[2]string{end.UID, end.Interface}] = true
	}
}

// free gives back the interfaces of a link that is to be removed. Nodes may still have its number and addresses.
func (p *pool) free(link *v1alpha1.TSNLink) {
	for _, end := range []*v1alpha1.LinkEnd{&link.Spec.Client, &link.Spec.Endpoint} {
		delete(p.interfaces, [2]string{end.UID, end.Interface})
		delete(p.nextInterface, end.UID)
	}
}

// vni finds the lowest free number of a range.
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

// pair finds the lowest free two addresses of a range.
func (p *pool) pair(within netip.Prefix) (netip.Prefix, bool) {
	length := within.Addr().BitLen() - 1
	count := uint64(1) << min(length-within.Bits(), 62)
	next := p.nextPair[within]
	if within.Addr().Is6() {
		next = max(next, 1) // the address with zeros behind the subnet is that of its routers (RFC 4291, 2.6.1)
	}
	for ; next < count; next++ {
		if pair := pairOf(within.Addr(), next, length); !p.pairs[pair] {
			p.nextPair[within] = next
			return pair, true
		}
	}
	p.nextPair[within] = next
	return netip.Prefix{}, false
}

// pairOf is the range of two addresses with a number, from the first of a range.
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

// endpointInterface finds the lowest free number behind a prefix in a pod.
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
