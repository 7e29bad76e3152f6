// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
)

// Two programs close the bridge of a link to the node: they drop every frame from the bridge to the node and from the node to the
// bridge. For networks nftables does that (package filter), which must be read completely for each change: too slow for a thousand links.

// sealAlias is the alias of a bridge that is closed so.
const sealAlias = "tsn-cni:1 link"

// dropped is TC_ACT_SHOT of linux/pkt_cls.h.
const dropped = 2

const sealName = "ktsn_seal"

// sealFilters are those of ingress and egress.
var sealFilters = []netdev.Filter{
	{Side: netdev.Ingress, Priority: 1, Name: sealName}, {Side: netdev.Egress, Priority: 1, Name: sealName},
}

// sealProgram is loaded once by a process. The filters keep it.
var sealProgram = sync.OnceValues(func() (*ebpf.Program, error) {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: sealName, Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, dropped), asm.Return()},
	})
	if err != nil {
		return nil, fmt.Errorf("load the program that drops frames: %w", err)
	}
	return program, nil
})

// seal closes a link's bridge to the node. It can be repeated.
func (n *Node) seal(bridge *netlink.Bridge) error {
	if err := setting("ipv4", bridge.Name, "arp_ignore", "8"); err != nil {
		return fmt.Errorf("set what %s answers: %w", bridge.Name, err)
	}
	if sealed, err := n.isSealed(bridge); err != nil || sealed {
		return err
	}
	program, err := sealProgram()
	if err != nil {
		return err
	}
	for _, filter := range sealFilters {
		if err := filter.Attach(n.kernel, bridge, program); err != nil {
			return fmt.Errorf("close %s to the node: %w", bridge.Name, err)
		}
	}
	if bridge.Alias == sealAlias {
		return nil
	}
	if err := n.kernel.LinkSetAlias(bridge, sealAlias); err != nil {
		return fmt.Errorf("set the alias of %s: %w", bridge.Name, err)
	}
	bridge.Alias = sealAlias
	return nil
}

// isSealed reports whether both programs are attached.
func (n *Node) isSealed(bridge *netlink.Bridge) (bool, error) {
	if bridge.Alias != sealAlias {
		return false, nil
	}
	for _, filter := range sealFilters {
		if kept, err := filter.Find(n.kernel, bridge); err != nil || kept == nil {
			return false, err
		}
	}
	return true, nil
}
