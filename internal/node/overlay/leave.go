// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay/filter"
)

// To remove devices, the kernel waits until no processor uses them any more: some 20 ms on an idle machine, however many there are.
// Devices are therefore put into a group first, which is cheap, and the group is removed. A device of the group counts as removed: the
// next removal of the group includes it, even if the process that put it there was killed.

// leavingGroup has the devices of this package that are about to be removed.
const leavingGroup = LinkGroup + 1

func isLeaving(link netlink.Link) bool { return link.Attrs().Group == leavingGroup }

// leave adds a device to the next removal. A device that is already gone is not an error.
func (n *Node) leave(link netlink.Link) error {
	err := n.kernel.LinkSetGroup(link, leavingGroup)
	if err == nil || errors.Is(err, errNoDevice) {
		return nil
	}
	return fmt.Errorf("have %s be removed: %w", link.Attrs().Name, err)
}

// removeLeaving removes all devices of the group. The kernel removes none if one of them cannot be removed, such as a
// network card that somebody put there. That device stays, and the others are removed one after another.
func (n *Node) removeLeaving() error {
	request := nl.NewNetlinkRequest(unix.RTM_DELLINK, unix.NLM_F_ACK)
	request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	request.AddData(nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(leavingGroup)))
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	switch {
	case err == nil || errors.Is(err, errNoDevice):
		return nil
	case !errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("remove devices: %w", err)
	}
	links, err := listLinks(choice{})
	if err != nil {
		return err
	}
	var failed error
	for _, link := range links {
		if !isLeaving(link) {
			continue
		}
		if err := n.remove(link); !errors.Is(err, unix.EOPNOTSUPP) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// Leaving is an attachment to unplug.
type Leaving struct {
	Network    *Network
	Attachment *Attachment
}

// Unplug removes an attachment's port and, if it was the network's last, the network's devices. Removing something that
// is already gone is not an error.
func (n *Node) Unplug(ctx context.Context, network *Network, attachment *Attachment) error {
	return n.UnplugAll(ctx, []Leaving{{network, attachment}})[0]
}

// UnplugAll unplugs many attachments, which takes hardly longer than one. It returns an error for each.
func (n *Node) UnplugAll(ctx context.Context, all []Leaving) []error {
	failed := make([]error, len(all))
	for i := range all {
		failed[i] = n.leavePort(all[i].Attachment)
	}
	fault.Point("port-leaving")
	unlock, err := n.lock(context.WithoutCancel(ctx))
	if err != nil {
		return forAll(failed, err)
	}
	defer unlock()
	unused := make([]devices, len(all))
	for i := range all {
		if failed[i] != nil {
			continue // its port uses the network
		}
		if unused[i], failed[i] = n.unused(all[i].Network); failed[i] == nil {
			failed[i] = n.leaveNetwork(unused[i])
		}
	}
	fault.Point("network-leaving")
	if err := n.removeLeaving(); err != nil {
		return forAll(failed, err)
	}
	fault.Point("devices-removed")
	return n.unguardAll(all, unused, failed)
}

// unguardAll removes the devices that are gone from the filter, all together, because that takes about as long as one.
// The lock is held.
func (n *Node) unguardAll(all []Leaving, gone []devices, failed []error) []error {
	var changes []filter.LinkChange
	networks, done := false, []int{}
	for i := range all {
		if failed[i] != nil {
			continue
		}
		if !all[i].Network.PointToPoint {
			networks, done = true, append(done, i)
			continue
		}
		if gone[i].tunnel == nil {
			continue
		}
		peer, err := n.linkPeer(all[i].Network.VNI)
		if err != nil {
			failed[i] = err
			continue
		}
		changes, done = append(changes, filter.LinkChange{Before: linkOf(gone[i].tunnel, peer)}), append(done, i)
	}
	if len(done) == 0 || (!networks && n.changeLinks(changes) == nil) {
		return failed
	}
	err := n.guard() // which reads all
	for _, i := range done {
		failed[i] = err
	}
	return failed
}

func forAll(failed []error, err error) []error {
	for i := range failed {
		failed[i] = errors.Join(failed[i], err)
	}
	return failed
}

func (n *Node) leavePort(attachment *Attachment) error {
	link, err := n.link(attachment.PortName())
	if err != nil || link == nil || !ours(link) {
		return err
	}
	return n.leave(link)
}

// leaveNetwork adds a network's devices to the next removal; nil stands for none.
func (n *Node) leaveNetwork(unused devices) error {
	var err error
	if unused.tunnel != nil {
		err = n.leave(unused.tunnel)
	}
	if unused.bridge != nil {
		err = errors.Join(err, n.leave(unused.bridge))
	}
	return err
}

// finishLeaving removes devices of the network that a killed Unplug has left, because their names are needed again. The
// lock is held.
func (n *Node) finishLeaving(network *Network, have devices) (devices, error) {
	if (have.bridge == nil || !isLeaving(have.bridge)) && (have.tunnel == nil || !isLeaving(have.tunnel)) {
		return have, nil
	}
	if err := n.removeLeaving(); err != nil {
		return have, err
	}
	return n.find(network)
}
