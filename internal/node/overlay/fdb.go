// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
)

// ntfSticky is NTF_STICKY of linux/neighbour.h.
const ntfSticky = 1 << 6

// claimHardwareAddress adds a permanent entry for a pod's address to the bridge's table. If there is one already, two
// pods have the same address, and it fails.
func (n *Node) claimHardwareAddress(port netlink.Link, address net.HardwareAddr) error {
	entry := &netlink.Neigh{
		LinkIndex: port.Attrs().Index,
		Family:    unix.AF_BRIDGE,
		State:     netlink.NUD_NOARP, // static; the pod's, not the node's own
		// A frame with this source from another port does not move the entry to that port.
		Flags:        netlink.NTF_MASTER | ntfSticky,
		HardwareAddr: address,
	}
	err := n.kernel.NeighAdd(entry)
	if errors.Is(err, errExist) {
		if err := n.checkOwner(port, address); err != nil {
			return err
		}
		// Learnt through the tunnel: a pod of that address was, or is, on another node.
		err = n.kernel.NeighSet(entry)
	}
	if err != nil {
		return fmt.Errorf("enter %s on bridge port %s: %w", address, port.Attrs().Name, err)
	}
	return nil
}

// checkOwner reports which port of this node has the address.
func (n *Node) checkOwner(port netlink.Link, address net.HardwareAddr) error {
	entries, err := n.fdb(0)
	if err != nil {
		return err
	}
	bridge, err := n.kernel.LinkByName(port.Attrs().Name)
	if err != nil {
		return fmt.Errorf("look for %s: %w", port.Attrs().Name, err)
	}
	for _, entry := range entries {
		if entry.MasterIndex != bridge.Attrs().MasterIndex || entry.LinkIndex == port.Attrs().Index ||
			entry.HardwareAddr.String() != address.String() {
			continue
		}
		holder, err := n.kernel.LinkByIndex(entry.LinkIndex)
		if err != nil || holder.Type() == "vxlan" || leadsIntoSwitch(holder) {
			continue // gone meanwhile, or on another node
		}
		return failed(AddressTaken, "hardware address %s belongs to %s on this bridge already; give the pod another address",
			address, describeOwner(holder))
	}
	return nil
}

func describeOwner(port netlink.Link) string {
	if attachment, _, ok := parseAlias(port.Attrs().Alias); ok {
		return fmt.Sprintf("container %s, interface %s, network %s", attachment.ContainerID, attachment.Interface, attachment.Network)
	}
	return "the pod behind " + port.Attrs().Name
}

// fdb lists forwarding entries, those of one device when link is not 0.
func (n *Node) fdb(link int) ([]netlink.Neigh, error) {
	entries, err := netdev.Dump(func() ([]netlink.Neigh, error) { return n.kernel.NeighList(link, unix.AF_BRIDGE) })
	if err != nil {
		return nil, fmt.Errorf("list forwarding entries: %w", err)
	}
	return entries, nil
}

// flood makes the tunnel send copies of frames without a known destination to the peer: broadcast, multicast, and the
// first frames to a pod. It can be repeated.
func (n *Node) flood(tunnel netlink.Link, peer netip.Addr) error {
	err := n.kernel.NeighAppend(floodEntry(tunnel, peer))
	if err != nil && !errors.Is(err, errExist) {
		return fmt.Errorf("tell %s of peer %s: %w", tunnel.Attrs().Name, peer, err)
	}
	return nil
}

// unflood undoes flood, and removes the learnt entries of pods on the peer.
func (n *Node) unflood(tunnel netlink.Link, peer netip.Addr) error {
	entries, err := n.fdb(tunnel.Attrs().Index)
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(entry netlink.Neigh) bool { return !entry.IP.Equal(net.IP(peer.AsSlice())) })
	return n.forget(tunnel, peer, entries)
}

// forget removes the entries that lead to a peer.
func (n *Node) forget(tunnel netlink.Link, peer netip.Addr, entries []netlink.Neigh) error {
	for _, entry := range entries {
		entry.Flags, entry.Family = netlink.NTF_SELF, unix.AF_BRIDGE
		entry.Vlan, entry.VNI, entry.MasterIndex = 0, 0, 0
		err := n.kernel.NeighDel(&entry)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("make %s forget peer %s: %w", tunnel.Attrs().Name, peer, err)
		}
	}
	return nil
}

// floods lists the peers that the tunnel floods to.
func (n *Node) floods(tunnel netlink.Link) (map[netip.Addr]bool, error) {
	entries, err := n.fdb(tunnel.Attrs().Index)
	if err != nil {
		return nil, err
	}
	peers := map[netip.Addr]bool{}
	for _, entry := range entries {
		address, ok := netip.AddrFromSlice(entry.IP)
		if ok && isZero(entry.HardwareAddr) {
			peers[address.Unmap()] = true
		}
	}
	return peers, nil
}

func floodEntry(tunnel netlink.Link, peer netip.Addr) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex:    tunnel.Attrs().Index,
		Family:       unix.AF_BRIDGE,
		State:        netlink.NUD_PERMANENT,
		Flags:        netlink.NTF_SELF,
		HardwareAddr: make(net.HardwareAddr, 6),
		IP:           net.IP(peer.AsSlice()),
	}
}

func isZero(address net.HardwareAddr) bool {
	for _, octet := range address {
		if octet != 0 {
			return false
		}
	}
	return true
}
