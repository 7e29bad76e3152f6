// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

// The kernel of the tests has no datapath of Open vSwitch; nothing is asked of the kernel for one.
func TestUsesOpenVSwitch(t *testing.T) {
	card := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 2, Name: "eno1", MasterIndex: 7}}
	datapath := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: 7, Name: "ovs-system"}, LinkType: "openvswitch"}
	all, how := stacked(card, []netlink.Link{card, datapath})
	if len(all) != 1 || all[0] != netlink.Link(datapath) || len(how) > 0 {
		t.Fatalf("on the card are %v, %q", all, how)
	}
	uses, err := usesOf(datapath)
	if err != nil || len(uses) != 1 || !strings.Contains(uses[0], "it is a port of Open vSwitch (ovs-system)") {
		t.Errorf("%q, %v", uses, err)
	}
}

func TestUsesStacked(t *testing.T) {
	attributes := func(index int, name string) netlink.LinkAttrs {
		return netlink.LinkAttrs{Index: index, Name: name, NetNsID: -1}
	}
	card := &netlink.Device{LinkAttrs: attributes(2, "eno1")}
	port := &netlink.Device{LinkAttrs: attributes(3, "eno2")}
	port.MasterIndex = 8
	on := func(link netlink.Link) netlink.Link {
		link.Attrs().ParentIndex = 2
		return link
	}
	bridge := &netlink.Bridge{LinkAttrs: attributes(8, "br0")}
	tunnel := &netlink.Vxlan{LinkAttrs: attributes(5, "tsnvx42"), VtepDevIndex: 2}
	elsewhere := on(&netlink.Vlan{LinkAttrs: attributes(6, "eth0")})
	elsewhere.Attrs().NetNsID = 4
	for name, test := range map[string]struct {
		below netlink.Link
		also  []netlink.Link
		want  string
	}{
		"a tunnel of ours":                  {card, []netlink.Link{tunnel}, "eno1 carries tsnvx42 (vxlan)"},
		"a VLAN":                            {card, []netlink.Link{on(&netlink.Vlan{LinkAttrs: attributes(6, "eno1.5")})}, "eno1 carries eno1.5 (vlan)"},
		"a macvlan":                         {card, []netlink.Link{on(&netlink.Macvlan{LinkAttrs: attributes(6, "mac0")})}, "eno1 carries mac0 (macvlan)"},
		"a port of a bridge":                {port, []netlink.Link{bridge}, "eno2 is a port of br0 (bridge)"},
		"one whose number is another's":     {card, []netlink.Link{elsewhere}, ""},
		"a bridge of which it is no port":   {card, []netlink.Link{bridge}, ""},
		"a tunnel that is another's":        {port, []netlink.Link{tunnel}, ""},
		"the other end of a pair like this": {card, []netlink.Link{on(&netlink.Veth{LinkAttrs: attributes(6, "veth0")})}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if _, how := stacked(test.below, append(test.also, test.below)); strings.Join(how, ", ") != test.want {
				t.Errorf("it says %q, want %q", how, test.want)
			}
		})
	}
}
