// SPDX-License-Identifier: Apache-2.0

package unseen

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The place of our filter among those of the interface: before all others.
const (
	filterPriority = 1
	filterHandle   = 1
)

// Attach has the program look at all that leaves by an interface. One that is there is replaced, and counts anew.
func Attach(interfaceName string) error {
	if err := attach(interfaceName); err != nil {
		return fmt.Errorf("keep datagrams that libktsn.so does not see from leaving %s early: %w", interfaceName, err)
	}
	return nil
}

func attach(interfaceName string) error {
	link, err := netlink.LinkByName(interfaceName)
	if err != nil {
		return err
	}
	loaded, err := load()
	if err != nil {
		return err
	}
	// The filter keeps the program, and the program its maps.
	defer loaded.Close()
	if err := netlink.QdiscAdd(classAct(link)); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add the queueing discipline clsact: %w", explain(err, "sch_ingress"))
	}
	filter := &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: link.Attrs().Index, Parent: netlink.HANDLE_MIN_EGRESS, Handle: filterHandle, Priority: filterPriority,
			Protocol: unix.ETH_P_ALL,
		},
		Fd: loaded.Programs[programName].FD(), Name: programName, DirectAction: true,
	}
	if err := netlink.FilterReplace(filter); err != nil {
		return fmt.Errorf("add the filter: %w", explain(err, "cls_bpf"))
	}
	return nil
}

func classAct(link netlink.Link) *netlink.Clsact {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
}

// explain names the part of the kernel that is missing.
func explain(err error, module string) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w: the kernel has no %s", err, module)
	}
	return err
}

// Attached tells whether the program is at the egress of an interface.
func Attached(interfaceName string) (bool, error) {
	filter, err := find(interfaceName)
	return filter != nil, err
}

// find returns our filter, nil if there is none.
func find(interfaceName string) (*netlink.BpfFilter, error) {
	link, err := netlink.LinkByName(interfaceName)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, fmt.Errorf("%w: there is no %s", ErrGone, interfaceName)
	}
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", interfaceName, err)
	}
	filters, err := netlink.FilterList(link, netlink.HANDLE_MIN_EGRESS)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil, nil // no clsact
	}
	if err != nil {
		return nil, fmt.Errorf("list the filters of %s: %w", interfaceName, err)
	}
	for _, filter := range filters {
		if program, ok := filter.(*netlink.BpfFilter); ok && program.Name == programName {
			return program, nil
		}
	}
	return nil, nil
}
