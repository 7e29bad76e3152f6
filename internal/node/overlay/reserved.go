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

// A bridge forwards no frame to the addresses that 802.1Q reserves for bridges themselves, 01:80:c2:00:00:00 to 0f. The kernel takes such a
// frame at the bridge's port, in the node's name: the filter at the bridge does not see it, and IPv4 or ARP in it would reach the node. A
// program drops it at the node's end of each pod's interface, after ktsn_divert, and at each tunnel, where other machines of the underlay
// could send it. ktsnd's announcements, which have such an address, are read at the uplink.

const (
	reservedName     = "ktsn_reserved"
	portFilterHandle = 1
	reservedPriority = 2
	// goesOn is TC_ACT_UNSPEC of linux/pkt_cls.h.
	goesOn = -1
)

// reserved is loaded once by a process, and again where that failed. The filters keep it.
var reserved struct {
	sync.Mutex
	program *ebpf.Program
}

func reservedProgram() (*ebpf.Program, error) {
	reserved.Lock()
	defer reserved.Unlock()
	if reserved.program != nil {
		return reserved.program, nil
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: reservedName, Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1), // where LoadAbs looks for the packet
			asm.LoadAbs(0, asm.Word),
			asm.JNE.Imm(asm.R0, 0x0180c200, "other"),
			asm.LoadAbs(4, asm.Half),
			asm.JGT.Imm(asm.R0, 0x000f, "other"),
			asm.Mov.Imm(asm.R0, dropped),
			asm.Return(),
			asm.Mov.Imm(asm.R0, goesOn).WithSymbol("other"),
			asm.Return(),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("load the program that drops frames for bridges: %w", err)
	}
	reserved.program = program
	return program, nil
}

// KeepReserved ensures that frames from a pod to reserved addresses do not reach the node through a port, and reports
// whether a filter was missing. It does nothing for a port that is gone or on a bridge that others made.
func (n *Node) KeepReserved(portName string) (missing bool, err error) {
	port, err := n.link(portName)
	if err != nil || port == nil {
		return false, err
	}
	missing, err = n.keepReserved(port)
	if errors.Is(err, errNoDevice) {
		return false, nil
	}
	return missing, err
}

func (n *Node) keepReserved(port netlink.Link) (missing bool, err error) {
	return n.keepFilter(port, portFilter{
		name: reservedName, priority: reservedPriority,
		load: func() (*ebpf.Program, func() error, error) {
			program, err := reservedProgram()
			return program, func() error { return nil }, err
		},
	})
}

// portFilter is a program at the node's end of a pod's interface. The kernel runs programs in the order of their priority, the lowest first.
type portFilter struct {
	name     string
	priority uint16
	// load loads the program, and returns a function that closes it after the filter was attached.
	load func() (*ebpf.Program, func() error, error)
}

// keepFilter makes sure that a port has the filter, if its bridge is of this package, and reports whether the filter was missing.
func (n *Node) keepFilter(port netlink.Link, wanted portFilter) (missing bool, err error) {
	ownBridge, err := n.isOnOwnBridge(port)
	if err != nil || !ownBridge {
		return false, err
	}
	kept, err := n.hasFilter(port, wanted.name)
	if err != nil || kept {
		return false, err
	}
	program, done, err := wanted.load()
	if err != nil {
		return true, err
	}
	clsact := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: port.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
	if err := n.kernel.QdiscAdd(clsact); err != nil && !errors.Is(err, unix.EEXIST) {
		return true, errors.Join(fmt.Errorf("guard %s (sch_ingress): %w", port.Attrs().Name, err), done())
	}
	filter := &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: port.Attrs().Index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: portFilterHandle, Priority: wanted.priority,
			Protocol: unix.ETH_P_ALL,
		},
		Fd: program.FD(), Name: wanted.name, DirectAction: true,
	}
	if err := n.kernel.FilterReplace(filter); err != nil {
		return true, errors.Join(fmt.Errorf("guard %s (cls_bpf): %w", port.Attrs().Name, err), done())
	}
	return true, done()
}

func (n *Node) isOnOwnBridge(port netlink.Link) (bool, error) {
	if port.Attrs().MasterIndex == 0 {
		return false, nil
	}
	bridge, err := n.kernel.LinkByIndex(port.Attrs().MasterIndex)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for the bridge of %s: %w", port.Attrs().Name, err)
	}
	return ours(bridge), nil
}

// hasFilter reports whether the port has a filter of that name.
func (n *Node) hasFilter(port netlink.Link, name string) (bool, error) {
	filters, err := n.kernel.FilterList(port, netlink.HANDLE_MIN_INGRESS)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return false, nil // no clsact
	}
	if err != nil {
		return false, fmt.Errorf("list the filters of %s: %w", port.Attrs().Name, err)
	}
	return slices.ContainsFunc(filters, func(filter netlink.Filter) bool {
		program, ok := filter.(*netlink.BpfFilter)
		return ok && program.Name == name
	}), nil
}
