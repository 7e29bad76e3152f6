// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// addressSettle is how long after a change of IPv4 addresses changed is called: ktsnd follows its uplink's after three seconds.
const addressSettle = 4 * time.Second

// Watch calls changed for each change of a device of package overlay that may have to be repaired, and after changes of IPv4 addresses,
// which may be the uplink's, until ctx ends or the watch fails. It watches the network namespace of the calling thread.
func Watch(ctx context.Context, changed func()) error {
	updates, addresses, done := make(chan netlink.LinkUpdate, 64), make(chan netlink.AddrUpdate, 64), make(chan struct{})
	defer close(done)
	failed := make(chan error, 1)
	fail := func(err error) {
		select {
		case failed <- err:
		default:
		}
	}
	err := netlink.LinkSubscribeWithOptions(updates, done, netlink.LinkSubscribeOptions{ErrorCallback: fail})
	if err == nil {
		err = netlink.AddrSubscribeWithOptions(addresses, done, netlink.AddrSubscribeOptions{ErrorCallback: fail})
	}
	if err != nil {
		return fmt.Errorf("watch devices: %w", err)
	}
	settled := time.NewTimer(0) // before the watch began
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return fmt.Errorf("watch devices: %w", err)
		case <-settled.C:
			changed()
		case update, open := <-addresses:
			if !open {
				return errors.New("watch devices: the kernel sends no more changes")
			}
			if update.LinkAddress.IP.To4() != nil {
				settled.Reset(addressSettle)
			}
		case update, open := <-updates:
			if !open {
				return errors.New("watch devices: the kernel sends no more changes")
			}
			if needsRepair(&update) {
				changed()
			}
		}
	}
}

// needsRepair reports whether a bridge or tunnel was removed or is down, or a tunnel or port is on no bridge. A port that is removed or
// down is one of a pod that comes or goes.
func needsRepair(update *netlink.LinkUpdate) bool {
	link := update.Link
	if link == nil || link.Attrs().Group != overlay.LinkGroup {
		return false
	}
	attributes := link.Attrs()
	isDown := attributes.RawFlags&unix.IFF_UP == 0
	switch link.Type() {
	case "bridge":
		return update.Header.Type == unix.RTM_DELLINK || isDown
	case "vxlan":
		return update.Header.Type == unix.RTM_DELLINK || isDown || attributes.MasterIndex == 0
	case "veth":
		return update.Header.Type == unix.RTM_NEWLINK && !isDown && attributes.MasterIndex == 0
	}
	return false
}
