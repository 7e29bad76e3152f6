// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Two programs close the bridge of a link to the node: they drop every frame from the bridge to the node and from the node to the
// bridge. For networks nftables does that (package filter), which must be read completely for each change: too slow for a thousand links.

// sealAlias is the alias of a bridge that is closed so.
const sealAlias = "tsn-cni:1 link"

const (
	sealName   = "ktsn_seal"
	sealHandle = 1
	// dropped is TC_ACT_SHOT of linux/pkt_cls.h.
	dropped = 2
)

// sealSides are ingress and egress.
var sealSides = []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS}

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
	clsact := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: bridge.Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
	if err := n.kernel.QdiscAdd(clsact); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("close %s to the node: %w", bridge.Name, err)
	}
	for _, side := range sealSides {
		filter := &netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{LinkIndex: bridge.Index, Parent: side, Handle: sealHandle, Priority: 1, Protocol: unix.ETH_P_ALL},
			Fd:          program.FD(), Name: sealName, DirectAction: true,
		}
		if err := n.kernel.FilterReplace(filter); err != nil {
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
	for _, side := range sealSides {
		filters, err := n.kernel.FilterList(bridge, side)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return false, nil // no clsact
		}
		if err != nil {
			return false, fmt.Errorf("list the filters of %s: %w", bridge.Name, err)
		}
		if !slices.ContainsFunc(filters, func(filter netlink.Filter) bool {
			program, ok := filter.(*netlink.BpfFilter)
			return ok && program.Name == sealName
		}) {
			return false, nil
		}
	}
	return true, nil
}
