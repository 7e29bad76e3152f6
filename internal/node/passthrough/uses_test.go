// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

// The kernel of the tests has no datapath of Open vSwitch; nothing is asked of the kernel for one.
func TestAPortOfOpenVSwitchIsInUse(t *testing.T) {
	card := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 2, Name: "eno1", MasterIndex: 7}}
	datapath := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: 7, Name: "ovs-system"}, LinkType: "openvswitch"}
	all := stacked(card, []netlink.Link{card, datapath})
	if len(all) != 2 || all[1] != netlink.Link(datapath) {
		t.Fatalf("on the card are %v", all)
	}
	uses, err := usesOf(datapath)
	if err != nil || len(uses) != 1 || !strings.Contains(uses[0], "it is a port of Open vSwitch (ovs-system)") {
		t.Errorf("%q, %v", uses, err)
	}
}
