// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/google/nftables"
)

// Names of the sets.
const (
	setTunnels  = "tunnels"
	setNetworks = "networks"
	setSealed   = "sealed"
	setUplinks  = "uplinks"
	setPeers    = "peers"
	setSources4 = "sources4"
	setSources6 = "sources6"
	setClosed   = "closed"
)

// typeVNI takes a register: the three bytes of the VXLAN header, and a zero.
var typeVNI = nftables.TypeMark

// form describes a set without its elements.
type form struct {
	name     string
	key      []nftables.SetDatatype
	interval bool
}

// forms are the sets of the table.
var forms = []form{
	{setTunnels, []nftables.SetDatatype{nftables.TypeInetService, typeVNI}, false},
	{setNetworks, []nftables.SetDatatype{nftables.TypeInetService, typeVNI}, false},
	{setUplinks, []nftables.SetDatatype{nftables.TypeIFIndex, typeVNI}, false},
	{setPeers, []nftables.SetDatatype{typeVNI, nftables.TypeIPAddr}, false},
	{setSources4, []nftables.SetDatatype{typeVNI, nftables.TypeIPAddr, nftables.TypeIPAddr}, true},
	{setSources6, []nftables.SetDatatype{typeVNI, nftables.TypeIPAddr, nftables.TypeIP6Addr}, true},
	{setClosed, []nftables.SetDatatype{nftables.TypeIFName}, false},
	{setSealed, []nftables.SetDatatype{nftables.TypeInetService, typeVNI}, false},
}

func (f *form) set(table *nftables.Table) *nftables.Set {
	set := &nftables.Set{Table: table, Name: f.name, Interval: f.interval, KeyType: f.key[0]}
	if len(f.key) > 1 {
		set.Concatenation = true
		set.KeyType = nftables.MustConcatSetType(f.key...)
	}
	return set
}

// elements are the elements of a set by key and end of range.
type elements map[string]nftables.SetElement

func (e elements) add(element nftables.SetElement) {
	e[string(element.Key)+"-"+string(element.KeyEnd)] = element
}

// minus returns the elements of e that are not in other.
func (e elements) minus(other elements) []nftables.SetElement {
	var all []nftables.SetElement
	for key, element := range e {
		if _, both := other[key]; !both {
			all = append(all, element)
		}
	}
	return all
}

// contents returns the elements of all sets.
func (w *Wanted) contents() map[string]elements {
	all := map[string]elements{}
	for _, form := range forms {
		all[form.name] = elements{}
	}
	add := func(set string, parts ...[]byte) { all[set].add(nftables.SetElement{Key: slices.Concat(parts...)}) }
	for _, network := range w.tunnels() {
		add(setTunnels, portKey(network.port), vniKey(network.vni))
	}
	for _, network := range w.networks() {
		add(setNetworks, portKey(network.port), vniKey(network.vni))
	}
	for _, network := range w.sealed() {
		add(setSealed, portKey(network.port), vniKey(network.vni))
	}
	for _, tunnel := range w.Tunnels {
		add(setUplinks, binary.NativeEndian.AppendUint32(nil, uint32(tunnel.Uplink)), vniKey(tunnel.VNI))
	}
	for _, peer := range w.Peers {
		add(setPeers, vniKey(peer.VNI), peer.Address.AsSlice())
	}
	for set, ipv4 := range map[string]bool{setSources4: true, setSources6: false} {
		for _, source := range w.sources(ipv4) {
			behind := slices.Concat(vniKey(source.vni), source.peer.AsSlice())
			all[set].add(nftables.SetElement{
				Key: slices.Concat(behind, source.first.AsSlice()), KeyEnd: slices.Concat(behind, source.last.AsSlice()),
			})
		}
	}
	for _, bridge := range w.Closed {
		add(setClosed, nameKey(bridge))
	}
	for i := range w.Links {
		for set, contents := range w.Links[i].contents() {
			maps.Copy(all[set], contents)
		}
	}
	return all
}

func portKey(port uint16) []byte { return []byte{byte(port >> 8), byte(port), 0, 0} }

func vniKey(vni uint32) []byte { return []byte{byte(vni >> 16), byte(vni >> 8), byte(vni), 0} }

func nameKey(name string) []byte {
	key := make([]byte, nftables.TypeIFName.Bytes)
	copy(key, name)
	return key
}
