// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
)

// openVSwitch is the type of a datapath of Open vSwitch in the kernel, of whose ports nobody else knows how they hang together.
const openVSwitch = "openvswitch"

// Uses tells what this node would lose with an interface: addresses and default routes of it, and of the bridges, bonds, VLANs
// and others that are on it, in this network namespace. Addresses of the link alone (fe80::) count for nothing. A port of Open vSwitch
// is in use whatever is on it.
func Uses(name string) ([]string, error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil, err
	}
	links, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	var uses []string
	for _, one := range stacked(link, links) {
		more, err := usesOf(one)
		if err != nil {
			return nil, err
		}
		uses = append(uses, more...)
	}
	return uses, nil
}

// stacked is the link and all that are on top of it.
func stacked(link netlink.Link, links []netlink.Link) []netlink.Link {
	found := []netlink.Link{link}
	seen := map[int]bool{link.Attrs().Index: true}
	for i := 0; i < len(found); i++ {
		below := found[i].Attrs()
		for _, one := range links {
			above := one.Attrs()
			// The parent of one with a number of a namespace is in that one, and that of a veth is its peer.
			isChild := above.ParentIndex == below.Index && above.NetNsID < 0 && one.Type() != "veth"
			if !seen[above.Index] && (isChild || above.Index == below.MasterIndex) {
				seen[above.Index] = true
				found = append(found, one)
			}
		}
	}
	return found
}

func usesOf(link netlink.Link) ([]string, error) {
	name := link.Attrs().Name
	if link.Type() == openVSwitch {
		return []string{"it is a port of Open vSwitch (" + name + "); `ovs-vsctl del-port` takes it off"}, nil
	}
	addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("addresses of %s: %w", name, err)
	}
	var uses []string
	for _, address := range addresses {
		if !address.IP.IsLinkLocalUnicast() {
			uses = append(uses, fmt.Sprintf("%s has the address %s", name, address.IPNet))
		}
	}
	routes, err := netlink.RouteList(link, netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("routes of %s: %w", name, err)
	}
	for _, route := range routes {
		if route.Dst == nil || route.Dst.IP.IsUnspecified() {
			uses = append(uses, name+" has a default route")
		}
	}
	return uses, nil
}
