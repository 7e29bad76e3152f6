// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"net/netip"
	"slices"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Tunnel is a VXLAN device of this node.
type Tunnel struct {
	VNI uint32
	// Port is its UDP port.
	Port uint16
	// Uplink is the index of the interface towards the other nodes.
	Uplink int
	// Open: programs of the node may send into it, through its bridge.
	Open bool
	// Encrypted: it has the port of encrypted tunnels.
	Encrypted bool
}

// Wanted describes the filter. If all of it is empty there is to be no filter.
type Wanted struct {
	Tunnels []Tunnel
	// Peers are the other nodes of all networks, also of those without a tunnel here.
	Peers []control.Peer
	// Links are the node's links, each a network of its own.
	Links []Link
	// Closed names the bridges through which pods must not reach the node.
	Closed []string
}

func (w *Wanted) empty() bool { return len(w.Tunnels)+len(w.Peers)+len(w.Links)+len(w.Closed) == 0 }

// Link is a network with one tunnel and at most one peer. Nothing else of Wanted depends on it.
type Link struct {
	Tunnel
	Peers []control.Peer
}

// contents returns the elements that a link adds to the sets; nothing for nil.
func (l *Link) contents() map[string]elements {
	if l == nil {
		return map[string]elements{}
	}
	return (&Wanted{Tunnels: []Tunnel{l.Tunnel}, Peers: l.Peers}).contents()
}

// defaultPort is VXLAN's, for networks that have no tunnel in clear on this node yet.
const defaultPort = 4789

// network identifies a tunnel's packets.
type network struct {
	port uint16
	vni  uint32
}

// tunnels returns the networks that this node receives.
func (w *Wanted) tunnels() []network {
	var all []network
	for _, tunnel := range w.Tunnels {
		all = append(all, network{tunnel.Port, tunnel.VNI})
	}
	return all
}

// networks returns all networks into which programs of this node must not send, including those that only peers have.
func (w *Wanted) networks() []network {
	all := w.tunnels()
	given := map[uint32]uint16{}
	for _, peer := range w.Peers {
		given[peer.VNI] = peer.Port
	}
	// The tunnels of a peer without a port have the port of the tunnels here, if those have none of their own. Only the peer may know
	// whether its network is encrypted, so the ports of both kinds of tunnels count.
	ports, inClear := []uint16{}, false
	for _, tunnel := range w.Tunnels {
		if tunnel.Port != given[tunnel.VNI] {
			ports = append(ports, tunnel.Port)
			inClear = inClear || !tunnel.Encrypted
		}
	}
	if !inClear {
		ports = append(ports, defaultPort)
	}
	for _, peer := range w.Peers {
		if peer.Port != 0 {
			all = append(all, network{peer.Port, peer.VNI})
		}
		for _, port := range ports {
			all = append(all, network{port, peer.VNI})
		}
	}
	return all
}

// sealed returns the networks into which programs of the node must not send through the bridge either. A packet that a
// program sent through a bridge still belongs to its socket after the tunnel, so that it cannot be told from one that
// the program made up.
func (w *Wanted) sealed() []network {
	return slices.DeleteFunc(w.networks(), func(network network) bool {
		return slices.ContainsFunc(w.Tunnels, func(tunnel Tunnel) bool { return tunnel.Open && tunnel.VNI == network.vni })
	})
}

// source is a range of addresses on a peer's node.
type source struct {
	vni         uint32
	peer        netip.Addr
	first, last netip.Addr
}

// everything is the whole range of each family.
var everything = map[bool]netip.Prefix{true: netip.MustParsePrefix("0.0.0.0/0"), false: netip.MustParsePrefix("::/0")}

// sources returns the ranges of one family. A peer without a subnet of the family may send from any address of it.
func (w *Wanted) sources(ipv4 bool) []source {
	var all []source
	for _, peer := range w.Peers {
		behind := disjoint(peer.Subnets, ipv4)
		if len(behind) == 0 {
			behind = []netip.Prefix{everything[ipv4]}
		}
		for _, subnet := range behind {
			all = append(all, source{peer.VNI, peer.Address, subnet.Addr(), last(subnet)})
		}
	}
	return all
}

// disjoint leaves out subnets that are part of others: the kernel rejects overlapping ranges.
func disjoint(subnets []netip.Prefix, ipv4 bool) []netip.Prefix {
	var all []netip.Prefix
	for _, subnet := range slices.SortedFunc(slices.Values(subnets), func(a, b netip.Prefix) int { return a.Bits() - b.Bits() }) {
		within := slices.ContainsFunc(all, func(wider netip.Prefix) bool { return wider.Contains(subnet.Addr()) })
		if subnet.Addr().Is4() == ipv4 && !within {
			all = append(all, subnet)
		}
	}
	return all
}

// last returns a subnet's highest address.
func last(subnet netip.Prefix) netip.Addr {
	bytes := subnet.Masked().Addr().AsSlice()
	for bit := subnet.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	address, _ := netip.AddrFromSlice(bytes)
	return address
}
