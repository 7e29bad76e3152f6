// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
)

// A bridge forwards no frame to the addresses that 802.1Q reserves for bridges themselves, 01:80:c2:00:00:00 to 0f. The kernel takes such a
// frame at the bridge's port, in the node's name: the filter at the bridge does not see it, and IPv4 or ARP in it would reach the node. A
// program drops it at the node's end of each pod's interface, after ktsn_divert, and at each tunnel, where other machines of the underlay
// could send it. At tunnels it leaves ktsnd's announcements, which have such an address, to ktsnd's socket. The bridge forwards none of that
// address, and the kernel has no other user of their EtherType.

const (
	reservedName = "ktsn_reserved"
	// tunnelReservedName differs from the name of earlier programs at tunnels, which dropped announcements, too, and are replaced.
	tunnelReservedName = "ktsn_reserved_t"
	reservedPriority   = 2
	// announcementAddress are the last bytes of the destination of ktsnd's announcements, and announcementType is their EtherType:
	// group_announcement_mac and GROUP_ETHERTYPE in ktsnd.
	announcementAddress, announcementType = 0x000e, 0x88b5
	// goesOn is TC_ACT_UNSPEC of linux/pkt_cls.h.
	goesOn = -1
)

// reserved are the programs by their names. Each is loaded once by a process, and again where that failed. The filters keep it.
var reserved struct {
	sync.Mutex
	programs map[string]*ebpf.Program
}

func reservedProgram(name string) (*ebpf.Program, error) {
	reserved.Lock()
	defer reserved.Unlock()
	if program := reserved.programs[name]; program != nil {
		return program, nil
	}
	code := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1), // where LoadAbs looks for the packet
		asm.LoadAbs(0, asm.Word),
		asm.JNE.Imm(asm.R0, 0x0180c200, "other"),
		asm.LoadAbs(4, asm.Half),
		asm.JGT.Imm(asm.R0, 0x000f, "other"),
	}
	if name == tunnelReservedName {
		code = append(code,
			asm.JNE.Imm(asm.R0, announcementAddress, "drop"),
			asm.LoadAbs(12, asm.Half),
			asm.JEq.Imm(asm.R0, announcementType, "other"),
		)
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.SchedCLS, License: "GPL",
		Instructions: append(code,
			asm.Mov.Imm(asm.R0, dropped).WithSymbol("drop"),
			asm.Return(),
			asm.Mov.Imm(asm.R0, goesOn).WithSymbol("other"),
			asm.Return(),
		),
	})
	if err != nil {
		return nil, fmt.Errorf("load the program that drops frames for bridges: %w", err)
	}
	if reserved.programs == nil {
		reserved.programs = map[string]*ebpf.Program{}
	}
	reserved.programs[name] = program
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

// reservedFilter returns the filter of a pod's port or a tunnel.
func reservedFilter(port netlink.Link) netdev.Filter {
	name := reservedName
	if port.Type() == "vxlan" {
		name = tunnelReservedName
	}
	return netdev.Filter{Side: netdev.Ingress, Priority: reservedPriority, Name: name}
}

func (n *Node) keepReserved(port netlink.Link) (missing bool, err error) {
	filter := reservedFilter(port)
	return n.keepFilter(port, portFilter{
		Filter: filter,
		load: func() (*ebpf.Program, func() error, error) {
			program, err := reservedProgram(filter.Name)
			return program, func() error { return nil }, err
		},
	})
}

// portFilter is a program at the node's end of a pod's interface.
type portFilter struct {
	netdev.Filter
	// load loads the program, and returns a function that closes it after the filter was attached.
	load func() (*ebpf.Program, func() error, error)
}

// keepFilter makes sure that a port has the filter, if its bridge is of this package, and reports whether the filter was missing.
func (n *Node) keepFilter(port netlink.Link, wanted portFilter) (missing bool, err error) {
	ownBridge, err := n.isOnOwnBridge(port)
	if err != nil || !ownBridge {
		return false, err
	}
	kept, err := wanted.Find(n.kernel, port)
	if err != nil || kept != nil {
		return false, err
	}
	program, done, err := wanted.load()
	if err != nil {
		return true, err
	}
	return true, errors.Join(wanted.Attach(n.kernel, port, program), done())
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
