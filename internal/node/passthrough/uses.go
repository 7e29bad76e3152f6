// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
)

// openVSwitch is the type of a datapath of Open vSwitch in the kernel, whose ports are connected in ways that only it
// knows.
const openVSwitch = "openvswitch"

// Uses returns what this node would lose with an interface, in this network namespace: its addresses and default
// routes, and the tunnels, VLANs and others that it carries, or the bridge or bond of which it is a port, with theirs.
// Link-local addresses (fe80::) do not count.
func Uses(name string) ([]string, error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil, err
	}
	links, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	above, uses := stacked(link, links)
	for _, user := range append([]netlink.Link{link}, above...) {
		more, err := usesOf(user)
		if err != nil {
			return nil, err
		}
		uses = append(uses, more...)
	}
	return uses, nil
}

// stacked returns all links on top of a link, and how they are related.
func stacked(link netlink.Link, links []netlink.Link) (above []netlink.Link, how []string) {
	stack := []netlink.Link{link}
	seen := map[int]bool{link.Attrs().Index: true}
	for i := 0; i < len(stack); i++ {
		below := stack[i].Attrs()
		for _, candidate := range links {
			relation := relationOf(below, candidate)
			if relation == "" || seen[candidate.Attrs().Index] {
				continue
			}
			seen[candidate.Attrs().Index] = true
			stack = append(stack, candidate)
			if candidate.Type() != openVSwitch { // of which usesOf says more
				how = append(how, fmt.Sprintf("%s %s %s (%s)", below.Name, relation, candidate.Attrs().Name, candidate.Type()))
			}
		}
	}
	return stack[1:], how
}

// relationOf is what a link has to do with another one on top of it; "": that is not.
func relationOf(below *netlink.LinkAttrs, link netlink.Link) string {
	above := link.Attrs()
	tunnel, isTunnel := link.(*netlink.Vxlan)
	switch {
	case above.Index == below.MasterIndex:
		return "is a port of"
	case isTunnel && tunnel.VtepDevIndex == below.Index:
		return "carries"
	// The parent of one with a number of a namespace is in that one, and that of a veth is its peer.
	case above.ParentIndex == below.Index && above.NetNsID < 0 && link.Type() != "veth":
		return "carries"
	}
	return ""
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
