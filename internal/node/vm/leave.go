// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// LeaveInterface undoes Make and JoinInterface, also after they failed half-way. The tap is removed last, because it shows that
// there is something to undo. A missing or foreign tap is not an error.
func LeaveInterface(tapName, interfaceName string) error {
	tap, err := netlink.LinkByName(tapName)
	switch {
	case errors.As(err, &netlink.LinkNotFoundError{}):
		return nil
	case err != nil:
		return fmt.Errorf("look for the tap %s: %w", tapName, err)
	case tap.Attrs().Group != overlay.LinkGroup:
		return nil
	}
	if err := detach(interfaceName); err != nil {
		return err
	}
	return RemoveTap(tapName)
}

// detach removes the redirection from the ingress of an interface, and clsact if it has no other filter.
func detach(interfaceName string) error {
	link, err := netlink.LinkByName(interfaceName)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for %s: %w", interfaceName, err)
	}
	has, err := capture.HasFilter(interfaceName, netlink.HANDLE_MIN_INGRESS, redirection)
	if err != nil {
		return err
	}
	if has {
		err := netlink.FilterDel(&netlink.BpfFilter{FilterAttrs: netlink.FilterAttrs{
			LinkIndex: link.Attrs().Index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: filterHandle, Priority: filterPriority, Protocol: unix.ETH_P_ALL,
		}})
		if err != nil {
			return fmt.Errorf("remove the filter %s from %s: %w", redirection, interfaceName, err)
		}
	}
	for _, side := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
		if others, err := netlink.FilterList(link, side); err != nil || len(others) > 0 {
			return err
		}
	}
	if err := netlink.QdiscDel(clsactOf(link)); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("remove the queueing discipline clsact from %s: %w", interfaceName, err)
	}
	return nil
}
