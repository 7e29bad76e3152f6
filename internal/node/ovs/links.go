// SPDX-License-Identifier: Apache-2.0

package ovs

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

// usualMTU is the assumed MTU in bytes of a network card without a kernel interface.
const usualMTU = 1500

func linkMTU(name string) (int, error) {
	if name == "" {
		return usualMTU, nil
	}
	link, err := netdev.Find(name)
	switch {
	case err != nil:
		return 0, err
	case link == nil:
		return 0, fmt.Errorf("--interface %s: there is no such interface; see `ip link`", name)
	case link.Attrs().RawFlags&unix.IFF_UP == 0:
		return 0, fmt.Errorf("--interface %s is down; bring it up first: ip link set %s up", name, name)
	}
	return link.Attrs().MTU, nil
}

// makeVeth ensures the veth pair between a network's bridge and br-int.
func makeVeth(vni uint32, mtu int) error {
	name := vethName(vni)
	link, err := netdev.Find(name)
	if err != nil {
		return err
	}
	if link == nil {
		if err := addVeth(name, switchName(vni), mtu); err != nil {
			return err
		}
	} else if link.Attrs().Group != overlay.SwitchGroup {
		return fmt.Errorf("%s is there already and a device of type %s: network %d goes through the kernel; remove its pods first", name, link.Type(), vni)
	}
	for _, end := range []string{name, switchName(vni)} {
		// Open vSwitch takes an offloaded checksum for a wrong one.
		if err := netdev.DisableChecksumOffload(end); err != nil {
			return err
		}
		if err := netlink.LinkSetUp(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: end}}); err != nil {
			return fmt.Errorf("set %s up: %w", end, err)
		}
	}
	return nil
}

func addVeth(name, peer string, mtu int) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU, attributes.Group = name, mtu, overlay.SwitchGroup
	pair := &netlink.Veth{LinkAttrs: attributes, PeerName: peer, PeerMTU: uint32(mtu)}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("make veth pair %s: %w", name, err)
	}
	return nil
}

// hasAddress reports whether br-phy exists, is up and has the tunnel's address.
func hasAddress(plan *Plan) bool {
	link, err := netdev.Find(BridgePhysical)
	return err == nil && link != nil && link.Attrs().RawFlags&unix.IFF_UP != 0 && carries(link, plan.Address.Addr())
}

func carries(link netlink.Link, address netip.Addr) bool {
	entries, err := netlink.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return false
	}
	for _, entry := range entries {
		if ip, ok := netip.AddrFromSlice(entry.IP.To4()); ok && ip == address {
			return true
		}
	}
	return false
}

// address moves the tunnel's address to br-phy and reports whether it did. It takes the address from the interface that Open
// vSwitch shares with the kernel, which would otherwise answer for it as well.
func (s *Switch) address(ctx context.Context, plan *Plan) (moved bool, err error) {
	if err := s.keepQuiet(ctx, plan); err != nil {
		return false, err
	}
	if hasAddress(plan) {
		return false, nil
	}
	bridge, err := s.awaitLink(ctx, BridgePhysical)
	if err != nil {
		return false, err
	}
	if err := s.takeAddress(ctx, plan); err != nil {
		return false, err
	}
	if !carries(bridge, plan.Address.Addr()) {
		if err := netlink.AddrAdd(bridge, entryOf(plan.Address)); err != nil {
			return false, fmt.Errorf("give %s the address %s: %w", BridgePhysical, plan.Address, err)
		}
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return false, fmt.Errorf("set %s up: %w", BridgePhysical, err)
	}
	return true, nil
}

// PrefixOf returns an address of this node with its prefix length, false if no interface has it.
func PrefixOf(address netip.Addr) (netip.Prefix, bool) {
	entries, err := netlink.AddrList(nil, netlink.FAMILY_V4)
	if err != nil {
		return netip.Prefix{}, false
	}
	for _, entry := range entries {
		if ip, ok := netip.AddrFromSlice(entry.IP.To4()); ok && ip == address {
			bits, _ := entry.Mask.Size()
			return netip.PrefixFrom(address, bits), true
		}
	}
	return netip.Prefix{}, false
}

func entryOf(prefix netip.Prefix) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: net.IP(prefix.Addr().AsSlice()), Mask: net.CIDRMask(prefix.Bits(), 32)}}
}

func (s *Switch) awaitLink(ctx context.Context, name string) (netlink.Link, error) {
	for deadline := time.Now().Add(5 * time.Second); ; {
		link, err := netdev.Find(name)
		if err != nil || link != nil {
			return link, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("ovs-vswitchd has not created %s in this network namespace; is ovs-vswitchd in another one?", name)
		}
		if err := retry.Pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// takeAddress removes the tunnel's address from the plan's interface. It fails if another interface has it.
func (s *Switch) takeAddress(ctx context.Context, plan *Plan) error {
	links, err := netdev.Dump(netlink.LinkList)
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	for _, link := range links {
		name := link.Attrs().Name
		if name == BridgePhysical || !carries(link, plan.Address.Addr()) {
			continue
		}
		if name != plan.Interface {
			return fmt.Errorf("%s has the address %s, which %s needs; remove it there first", name, plan.Address.Addr(), BridgePhysical)
		}
		if err := checkRoutes(link); err != nil {
			return err
		}
		// Write the mark first, so that Teardown gives the address back after a crash.
		if err := s.write(ctx, []string{"--", "set", "Open_vSwitch", ".", "external_ids:" + addressFrom + "=" + quoted(name+" "+plan.Address.String())}); err != nil {
			return err
		}
		if err := netlink.AddrDel(link, entryOf(plan.Address)); err != nil {
			return fmt.Errorf("remove the address %s from %s, which must have it with this prefix: %w", plan.Address, name, err)
		}
	}
	return nil
}

// checkRoutes fails if the interface has routes that would disappear with its address.
func checkRoutes(link netlink.Link) error {
	routes, err := netlink.RouteList(link, netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("list the routes of %s: %w", link.Attrs().Name, err)
	}
	for _, route := range routes {
		if route.Gw != nil {
			return fmt.Errorf("%s has a route through the gateway %s, which would disappear with its address; name an interface without such routes, "+
				"or add them to %s afterwards (ip route del ... dev %s first)", link.Attrs().Name, route.Gw, BridgePhysical, link.Attrs().Name)
		}
	}
	return nil
}

// forgetNeighbors makes the kernel resolve the peers' hardware addresses again.
func forgetNeighbors(plan *Plan) {
	link, err := netdev.Find(BridgePhysical)
	if err != nil || link == nil {
		return
	}
	for _, peer := range plan.Peers {
		_ = netlink.NeighDel(&netlink.Neigh{LinkIndex: link.Attrs().Index, IP: net.IP(peer.AsSlice())}) // if it is there
	}
}
