// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// ingress is BPF_F_INGRESS of linux/bpf.h: as if it had come in there.
	ingress = 1
	// The redirection at the node's end is behind other filters of its ingress, and the only one of its egress.
	filterHandle   = 1
	filterPriority = 1
)

// makeTap makes a tap that stays when nobody has it open.
func makeTap(m *Machine, mtu int) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU = m.Tap, mtu
	tap := &netlink.Tuntap{LinkAttrs: attributes, Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR}
	if m.Queues > 1 {
		tap.Flags = netlink.TUNTAP_MULTI_QUEUE_DEFAULTS | netlink.TUNTAP_VNET_HDR
	}
	if m.Owner >= 0 {
		tap.Owner = uint32(m.Owner)
	}
	if err := netlink.LinkAdd(tap); err != nil {
		return fmt.Errorf("make the tap %s: %w", m.Tap, err)
	}
	if err := netlink.LinkSetUp(tap); err != nil {
		return errors.Join(fmt.Errorf("set the tap %s up: %w", m.Tap, err), netlink.LinkDel(tap))
	}
	return nil
}

// removeTap removes it; that it is not there is no error.
func removeTap(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if err != nil {
		return fmt.Errorf("remove the tap %s: %w", name, err)
	}
	return nil
}

// join has what comes in at the tap come in at the node's end of the interface, and what would leave there leave at the tap.
func join(tapName, portName string) error {
	tap, err := netlink.LinkByName(tapName)
	if err != nil {
		return err
	}
	port, err := netlink.LinkByName(portName)
	if err != nil {
		return fmt.Errorf("the node's end of the interface, %s: %w", portName, err)
	}
	if err := redirect(tap, netlink.HANDLE_MIN_INGRESS, port, ingress); err != nil {
		return err
	}
	return redirect(port, netlink.HANDLE_MIN_EGRESS, tap, 0)
}

func redirect(at netlink.Link, parent uint32, to netlink.Link, flags int32) error {
	name := "ktsn_vm"
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.SchedCLS, License: "Apache-2.0", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R1, int32(to.Attrs().Index)), asm.Mov.Imm(asm.R2, flags), asm.FnRedirect.Call(), asm.Return(),
	}})
	if err != nil {
		return fmt.Errorf("load the redirection from %s to %s: %w", at.Attrs().Name, to.Attrs().Name, err)
	}
	defer program.Close() // the filter keeps it
	clsact := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: at.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
	if err := netlink.QdiscAdd(clsact); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add the queueing discipline clsact to %s: %w", at.Attrs().Name, err)
	}
	err = netlink.FilterReplace(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: at.Attrs().Index, Parent: parent, Handle: filterHandle, Priority: filterPriority, Protocol: unix.ETH_P_ALL,
		},
		Fd: program.FD(), Name: name, DirectAction: true,
	})
	if err != nil {
		return fmt.Errorf("add the redirection from %s to %s: %w", at.Attrs().Name, to.Attrs().Name, err)
	}
	return nil
}
