// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// Link is one end of a point-to-point link, as the field link of a configuration describes it.
type Link struct {
	// Addresses are those of the pod's interface, one of a family at most.
	Addresses []netip.Prefix `json:"addresses"`
	// MAC is the interface's hardware address.
	MAC  string   `json:"mac"`
	Peer LinkPeer `json:"peer"`
	// Routes are ranges that the pod reaches by the peer's address.
	Routes []netip.Prefix `json:"routes,omitempty"`
	// Forward are the families, IPv4 and IPv6, that the pod's kernel forwards.
	Forward []string `json:"forward,omitempty"`
	// Closed has the pod's kernel refuse what is for the peer, or behind it, whenever the interface is missing. No configuration has it: ktsn-agent sets
	// it for links whose frames must not leave the node in clear.
	Closed bool `json:"closed,omitempty"`
}

// LinkPeer is the other end of a link.
type LinkPeer struct {
	Addresses []netip.Addr `json:"addresses"`
	MAC       string       `json:"mac"`
	// Node is where the tunnels of the peer's node end; the zero value: the peer is on this node.
	Node netip.Addr `json:"node,omitzero"`
}

// Families that a pod in the middle of a chain forwards.
const (
	ForwardIPv4 = "IPv4"
	ForwardIPv6 = "IPv6"
)

// maxLinkRoutes is what a TSNLink can have.
const maxLinkRoutes = 4096

// Ends of a link.
const (
	linkClient   = 1
	linkEndpoint = 2
)

// LinkMACs are the hardware addresses of a link's ends. They follow from the link, so that each end knows the other's and asks nobody.
func LinkMACs(vni uint32) (client, endpoint net.HardwareAddr) {
	made := func(end byte) net.HardwareAddr {
		return net.HardwareAddr{0x02, 0x6b, byte(vni >> 16), byte(vni >> 8), byte(vni), end}
	}
	return made(linkClient), made(linkEndpoint)
}

// Validate returns what is wrong with the link.
func (l *Link) Validate() error {
	if err := l.checkAddresses(); err != nil {
		return err
	}
	for what, text := range map[string]string{"mac": l.MAC, "peer.mac": l.Peer.MAC} {
		if !IsHardwareAddress(text) {
			return fmt.Errorf("%s: %q is no hardware address for an interface", what, text)
		}
	}
	if l.MAC == l.Peer.MAC {
		return fmt.Errorf("peer.mac: both ends have %s", l.MAC)
	}
	if node := l.Peer.Node; node.IsValid() {
		if err := CheckNodeAddress(node); err != nil {
			return fmt.Errorf("peer.node: %w", err)
		}
	}
	if len(l.Routes) > maxLinkRoutes {
		return fmt.Errorf("routes: there are %d; give at most %d", len(l.Routes), maxLinkRoutes)
	}
	for _, route := range l.Routes {
		if !route.IsValid() || route != route.Masked() || route.Addr().Is4In6() {
			return fmt.Errorf("routes: %s is no range written by its first address", route)
		}
		if !l.gateway(route.Addr().Is4()).IsValid() {
			return fmt.Errorf("routes: %s cannot be reached: the peer has no address of its family", route)
		}
	}
	for _, family := range l.Forward {
		if family != ForwardIPv4 && family != ForwardIPv6 {
			return fmt.Errorf("forward: %q is neither %s nor %s", family, ForwardIPv4, ForwardIPv6)
		}
	}
	return nil
}

func (l *Link) checkAddresses() error {
	if len(l.Addresses) == 0 || len(l.Addresses) > 2 || len(l.Peer.Addresses) != len(l.Addresses) {
		return fmt.Errorf("addresses: there are %d, and the peer has %d; give each end one of IPv4, of IPv6, or of both",
			len(l.Addresses), len(l.Peer.Addresses))
	}
	seen := map[bool]bool{}
	for i, own := range l.Addresses {
		peer := l.Peer.Addresses[i]
		switch {
		case !own.IsValid() || own.Addr().Is4In6() || own.Addr().IsMulticast() || own.Addr().IsUnspecified() || own.Addr().IsLoopback():
			return fmt.Errorf("addresses: %s is no address for an interface", own)
		case seen[own.Addr().Is4()]:
			return errors.New("addresses: there are two of one family; give one of each at most")
		case !own.Contains(peer) || own.Addr() == peer:
			return fmt.Errorf("addresses: %s and the peer's %s are not the two ends of one link", own, peer)
		}
		seen[own.Addr().Is4()] = true
	}
	return nil
}

// CheckNodeAddress says what is wrong with the address at which another node's tunnels end.
func CheckNodeAddress(node netip.Addr) error {
	if !node.Is4() || node.IsUnspecified() || node.IsMulticast() || node.IsLoopback() || node.IsLinkLocalUnicast() ||
		node == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return fmt.Errorf("%s is no address at which tunnels of a node can end; give an IPv4 address of a host", node)
	}
	return nil
}

// gateway is the peer's address of a family.
func (l *Link) gateway(ipv4 bool) netip.Addr {
	for _, address := range l.Peer.Addresses {
		if address.Is4() == ipv4 {
			return address
		}
	}
	return netip.Addr{}
}

// behindPeer are the subnets of which frames may come from the peer: its own addresses, and what the pod reaches by it. Where these are
// more than ktsnd takes, all may.
func (l *Link) behindPeer() []netip.Prefix {
	var all []netip.Prefix
	for _, address := range l.Peer.Addresses {
		all = append(all, netip.PrefixFrom(address, address.BitLen()))
	}
	all = append(all, l.Routes...)
	if len(all) <= maxPeerSubnets {
		return all
	}
	return []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
}

// maxPeerSubnets is what ktsnd takes of one peer.
const maxPeerSubnets = 64

// same tells whether two links have the same ends. What else they differ in can be changed while they are plugged.
func (l *Link) same(other *Link) bool {
	return slices.Equal(l.Addresses, other.Addresses) && l.MAC == other.MAC && slices.Equal(l.Peer.Addresses, other.Peer.Addresses) &&
		l.Peer.MAC == other.Peer.MAC
}

// linkNetwork is what the link is on the node.
func linkNetwork(vni uint32) overlay.Network {
	return overlay.Network{VNI: vni, Bridge: overlay.BridgeName(vni), Tunnel: overlay.TunnelName(vni), PointToPoint: true}
}
