// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// CheckUplink reports whether the network's devices could be made.
func (n *Node) CheckUplink(ctx context.Context, network *Network, timed Timed) error {
	have, err := n.find(network)
	if err == nil && have.switched != nil {
		return checkSwitched(ctx, network, have, timed)
	}
	_, err = n.resolveUplink(ctx, network, timed)
	return err
}

// CheckNetwork returns the differences between a network's devices and what Plug makes, one error each.
func (n *Node) CheckNetwork(ctx context.Context, network *Network) error {
	have, err := n.find(network)
	switch {
	case err != nil:
		return err
	case have.bridge == nil:
		return fmt.Errorf("bridge %s is missing", network.Bridge)
	case have.switched != nil:
		return errors.Join(checkDevicesSwitched(network, have), n.checkGuard(ctx))
	case have.tunnel == nil:
		return fmt.Errorf("VXLAN device %s is missing", network.Tunnel)
	}
	all := n.fits(network, have)
	if network.PointToPoint && ours(have.bridge) {
		sealed, err := n.isSealed(have.bridge)
		if err == nil && !sealed {
			err = fmt.Errorf("pods can reach the node by bridge %s", network.Bridge)
		}
		all = errors.Join(all, err)
	}
	for _, link := range []netlink.Link{have.bridge, have.tunnel} {
		if !isUp(link) {
			all = errors.Join(all, fmt.Errorf("%s is down", link.Attrs().Name))
		}
	}
	return errors.Join(all, n.checkUplink(have.tunnel), n.checkPeers(network, have.tunnel), n.checkGuard(ctx))
}

func (n *Node) checkUplink(tunnel *netlink.Vxlan) error {
	uplink, err := n.kernel.LinkByIndex(tunnel.VtepDevIndex)
	if err != nil {
		return fmt.Errorf("look for the uplink of %s: %w", tunnel.Name, err)
	}
	if !isUp(uplink) {
		return fmt.Errorf("the uplink %s is down", uplink.Attrs().Name)
	}
	local, _ := netip.AddrFromSlice(tunnel.SrcAddr)
	device := &uplinkDevice{name: uplink.Attrs().Name, address: local.Unmap()}
	return n.chooseAddress(uplink, device)
}

func (n *Node) checkPeers(network *Network, tunnel *netlink.Vxlan) error {
	peers, err := n.peersOf(network)
	if err != nil {
		return err
	}
	targets, err := n.floods(tunnel)
	if err != nil {
		return err
	}
	var all error
	for _, peer := range peers {
		if !targets[peer.Address] {
			all = errors.Join(all, fmt.Errorf("%s does not know peer %s", tunnel.Name, peer.Address))
		}
	}
	return all
}

// CheckPort returns the differences between an attachment's port and what Plug makes.
func (n *Node) CheckPort(network *Network, attachment *Attachment, mtu int, address net.HardwareAddr) error {
	port, err := n.link(attachment.PortName())
	if err != nil {
		return err
	}
	if port == nil {
		return fmt.Errorf("the node's end of the pod's interface, %s, is missing", attachment.PortName())
	}
	bridge, err := n.link(network.Bridge)
	if err != nil {
		return err
	}
	var all error
	name := port.Attrs().Name
	if bridge == nil || port.Attrs().MasterIndex != bridge.Attrs().Index {
		all = errors.Join(all, fmt.Errorf("%s is not a port of bridge %s", name, network.Bridge))
	}
	if !isUp(port) {
		all = errors.Join(all, fmt.Errorf("%s is down", name))
	}
	if port.Attrs().MTU != mtu {
		all = errors.Join(all, fmt.Errorf("%s has an MTU of %d, not %d", name, port.Attrs().MTU, mtu))
	}
	return errors.Join(all, n.checkClaim(port, address))
}

func (n *Node) checkClaim(port netlink.Link, address net.HardwareAddr) error {
	entries, err := n.fdb(port.Attrs().Index)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.State&unix.NUD_NOARP != 0 && entry.HardwareAddr.String() == address.String() {
			return nil
		}
	}
	return fmt.Errorf("the bridge does not know %s on %s", address, port.Attrs().Name)
}
