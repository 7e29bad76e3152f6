// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// EncapsulationBytes is what the tunnel adds inside the uplink's MTU: the pod's Ethernet header, VXLAN, UDP
// and IPv4 headers.
const EncapsulationBytes = 14 + 8 + 8 + 20

// MinMTU is what IPv6 needs of a link (RFC 8200); less would do for IPv4 only.
const MinMTU = 1280

// MostMTU returns the largest MTU of pods' interfaces with this uplink, 0 if there is no such interface.
func MostMTU(uplink string) int {
	link, err := net.InterfaceByName(uplink)
	if err != nil {
		return 0
	}
	return max(0, link.MTU-EncapsulationBytes)
}

// Timed is the part of ktsnd that networks need; nil for a node without ktsnd.
type Timed interface {
	Status(context.Context) (*control.Status, error)
	PeerAdd(context.Context, control.Peer) error
	PeerDel(ctx context.Context, vni uint32, address netip.Addr) error
}

// uplinkDevice is the interface towards the other nodes.
type uplinkDevice struct {
	name    string
	index   int
	mtu     int
	address netip.Addr
}

// mtu is that of the network's devices.
func (n *Network) mtu(uplink *uplinkDevice) int {
	if n.MTU != 0 {
		return n.MTU
	}
	return uplink.mtu - EncapsulationBytes - n.Overhead
}

// resolveUplink returns the uplink that the network names, or ktsnd's. Timed and other traffic must leave through the
// same interface and from the same address, or the other nodes would see each pod alternately in two places.
func (n *Node) resolveUplink(ctx context.Context, network *Network, timed Timed) (*uplinkDevice, error) {
	uplink := &uplinkDevice{name: network.Uplink, address: network.LocalAddress}
	if timed != nil {
		status, err := timed.Status(ctx)
		if err != nil {
			return nil, err
		}
		if err := uplink.follow(network, status); err != nil {
			return nil, err
		}
	}
	if uplink.name == "" {
		return nil, failed(NoUplink, "no uplink is named and no ktsnd tells one; name the interface towards the other nodes")
	}
	return uplink, n.readUplink(network, uplink)
}

// follow takes missing values from ktsnd, and rejects values that differ.
func (u *uplinkDevice) follow(network *Network, status *control.Status) error {
	if status.Uplink == uplinkSwitched {
		return failed(NoUplink, "ktsnd sends through Open vSwitch, and network %d does not go there; run `ktsn ovs setup` with --network %d (it makes %s), or start ktsnd with --uplink direct",
			network.VNI, network.VNI, TunnelName(network.VNI))
	}
	if u.name == "" {
		u.name = status.Interface
	}
	if u.name != status.Interface {
		return failed(NoUplink, "the uplink %s is not the one that ktsnd sends on, which is %s; leave it out, or start ktsnd with --interface %s",
			u.name, status.Interface, u.name)
	}
	if !u.address.IsValid() {
		u.address = status.LocalAddress
	}
	if u.address != status.LocalAddress {
		return failed(NoUplink, "the local address %s is not the one that ktsnd sends from, which is %s; leave it out, or start ktsnd with --local-address %s",
			u.address, status.LocalAddress, u.address)
	}
	return nil
}

func (n *Node) readUplink(network *Network, uplink *uplinkDevice) error {
	link, err := n.link(uplink.name)
	switch {
	case err != nil:
		return err
	case link == nil:
		return failed(NoUplink, "the uplink %s does not exist on this node; name the interface towards the other nodes", uplink.name)
	case !isUp(link):
		return failed(NoUplink, "the uplink %s is down; set it up first", uplink.name)
	}
	uplink.index, uplink.mtu = link.Attrs().Index, link.Attrs().MTU
	if most := uplink.mtu - EncapsulationBytes - network.Overhead; network.mtu(uplink) > most {
		return failed(TooLarge, "an MTU of %d does not fit: the uplink %s carries %d bytes and the tunnel takes %d of them; give at most %d",
			network.MTU, uplink.name, uplink.mtu, EncapsulationBytes+network.Overhead, most)
	}
	if network.mtu(uplink) < MinMTU {
		return failed(NoUplink, "the uplink %s carries %d bytes, which leaves less than %d in the tunnel; raise its MTU",
			uplink.name, uplink.mtu, MinMTU)
	}
	return n.chooseAddress(link, uplink)
}

// chooseAddress takes the interface's first address, or checks that it has the given one.
func (n *Node) chooseAddress(link netlink.Link, uplink *uplinkDevice) error {
	addresses, err := n.kernel.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return failed(NoUplink, "list the addresses of %s: %w", uplink.name, err)
	}
	for _, entry := range addresses {
		address, _ := netip.AddrFromSlice(entry.IP.To4())
		if !uplink.address.IsValid() {
			uplink.address = address
		}
		if address == uplink.address {
			return nil
		}
	}
	if uplink.address.IsValid() {
		return failed(NoUplink, "the uplink %s does not have the address %s; give one that it has", uplink.name, uplink.address)
	}
	return failed(NoUplink, "the uplink %s has no IPv4 address for the tunnel; give it one first", uplink.name)
}
