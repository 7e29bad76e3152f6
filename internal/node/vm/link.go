// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

const (
	// ingress is BPF_F_INGRESS of linux/bpf.h.
	ingress = 1
	// stolen is TC_ACT_STOLEN of linux/pkt_cls.h.
	stolen = 4
	// The redirection at the node's end is the only filter of its egress.
	filterPriority = 1
	// redirection is the name of its program and filter.
	redirection = "ktsn_vm"
)

// Tap is the tap of a virtual machine. It persists while no process has it open.
type Tap struct {
	Name string
	// MTU is the MTU of the machine's interface plus the length of a record in front of a frame, in bytes.
	MTU int
	// Queues is the number of queue pairs.
	Queues int
	// Owner, who must be in Group, may open it without privileges; negative: only root.
	Owner, Group int
}

// Make creates the tap and sets it up.
func (t *Tap) Make() error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = t.Name
	tap := &netlink.Tuntap{LinkAttrs: attributes, Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR}
	if t.Queues > 1 {
		tap.Flags = netlink.TUNTAP_MULTI_QUEUE_DEFAULTS | netlink.TUNTAP_VNET_HDR
	}
	if t.Owner >= 0 {
		// The owner must also be in the tap's group, which is root's by default.
		tap.Owner, tap.Group = uint32(t.Owner), uint32(t.Group)
	}
	if err := netlink.LinkAdd(tap); err != nil {
		return fmt.Errorf("make the tap %s: %w", t.Name, err)
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"mark", func() error { return netlink.LinkSetGroup(tap, overlay.LinkGroup) }},
		// The kernel ignores the MTU at creation.
		{"set the MTU of", func() error { return netlink.LinkSetMTU(tap, t.MTU) }},
		{"set up", func() error { return netlink.LinkSetUp(tap) }},
	} {
		if err := step.do(); err != nil {
			return errors.Join(fmt.Errorf("%s the tap %s: %w", step.what, t.Name, err), netlink.LinkDel(tap))
		}
	}
	return nil
}

// RemoveTap removes a tap. A missing or foreign tap is not an error.
func RemoveTap(name string) error {
	link, err := netdev.Find(name)
	if link != nil && link.Attrs().Group == overlay.LinkGroup {
		err = netlink.LinkDel(link)
	}
	if err != nil {
		return fmt.Errorf("remove the tap %s: %w", name, err)
	}
	return nil
}

// join redirects frames from the tap to the ingress of the node's end of the interface, and the egress of the node's end to the tap.
func join(tapName, portName string) error {
	tap, err := netlink.LinkByName(tapName)
	if err != nil {
		return err
	}
	port, err := netlink.LinkByName(portName)
	if err != nil {
		return fmt.Errorf("the node's end of the interface, %s: %w", portName, err)
	}
	if err := attach(tap, netdev.Ingress, redirection, copyInto(port)); err != nil {
		return err
	}
	return attach(port, netdev.Egress, redirection, sendTo(tap))
}

// IsJoined reports whether the node's end of an interface is joined with a tap of the node, as by Attach.
func IsJoined(portName string) (bool, error) {
	return capture.HasFilter(portName, netdev.Egress, redirection)
}

// copyInto redirects a clone of the frame to the ingress of a link. The frame itself belongs to QEMU's socket, and the filter of the
// tunnel (overlay/filter) drops frames from sockets of the node. A clone has no socket.
func copyInto(link netlink.Link) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Imm(asm.R2, int32(link.Attrs().Index)), asm.Mov.Imm(asm.R3, ingress), asm.FnCloneRedirect.Call(),
		asm.Mov.Imm(asm.R0, stolen), asm.Return(),
	}
}

// sendTo redirects the frame to the egress of a link.
func sendTo(link netlink.Link) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Imm(asm.R1, int32(link.Attrs().Index)), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return(),
	}
}

// attach attaches a program to one side of an interface. It replaces an existing one.
func attach(at netlink.Link, side uint32, name string, instructions asm.Instructions) error {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.SchedCLS, License: "Apache-2.0", Instructions: instructions})
	if err != nil {
		return fmt.Errorf("load the program %s for %s: %w", name, at.Attrs().Name, err)
	}
	defer program.Close() // the filter keeps it
	return netdev.Filter{Side: side, Priority: filterPriority, Name: name}.Attach(netdev.Here, at, program)
}
