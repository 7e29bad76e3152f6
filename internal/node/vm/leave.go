// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// LeaveInterface undoes Make and JoinInterface, also after they failed half-way. The tap is removed last, because it shows that
// there is something to undo. A missing or foreign tap is not an error.
func LeaveInterface(tapName, interfaceName string) error {
	tap, err := netdev.Find(tapName)
	if err != nil || tap == nil || tap.Attrs().Group != overlay.LinkGroup {
		return err
	}
	if err := detach(interfaceName); err != nil {
		return err
	}
	return RemoveTap(tapName)
}

// detach removes the redirection from the ingress of an interface, and clsact if it has no other filter.
func detach(interfaceName string) error {
	link, err := netdev.Find(interfaceName)
	if err != nil || link == nil {
		return err
	}
	filter, err := netdev.Filter{Side: netdev.Ingress, Name: redirection}.Find(netdev.Here, link)
	if err == nil && filter != nil {
		err = netlink.FilterDel(filter)
	}
	if err != nil {
		return fmt.Errorf("remove the filter %s from %s: %w", redirection, interfaceName, err)
	}
	_, err = netdev.RemoveEmptyClsact(link)
	return err
}
