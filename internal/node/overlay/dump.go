// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
)

// users describes who uses a bridge.
type users struct {
	// pods: at least one of this package's ports is on it. Other ports were not looked at then.
	pods bool
	// others: it has a port that is neither this package's nor the tunnel.
	others bool
}

// usersOf looks at the ports of a bridge until it finds a pod's. On a full node it finds one at once, where a whole
// list would take longer than everything else that is done for a pod.
func usersOf(bridge, tunnel netlink.Link) (users, error) {
	var users users
	err := eachLink(choice{master: bridge.Attrs().Index}, func(port netlink.Link) bool {
		switch {
		case isLeaving(port):
		case ours(port) && port.Type() == "veth":
			users.pods = true
		case tunnel == nil || port.Attrs().Index != tunnel.Attrs().Index:
			users.others = true
		}
		return !users.pods
	})
	return users, err
}

// choice selects devices: those with a master, those of a kind; zero values select all.
type choice struct {
	master int
	kind   string
}

// listLinks lists devices.
func listLinks(wanted choice) ([]netlink.Link, error) {
	return netdev.Dump(func() (all []netlink.Link, err error) {
		err = eachLink(wanted, func(link netlink.Link) bool {
			all = append(all, link)
			return true
		})
		return all, err
	})
}

// listTunnels lists the VXLAN devices, whoever made them.
func listTunnels() ([]*netlink.Vxlan, error) {
	links, err := listLinks(choice{kind: "vxlan"})
	var all []*netlink.Vxlan
	for _, link := range links {
		if tunnel, ok := link.(*netlink.Vxlan); ok {
			all = append(all, tunnel)
		}
	}
	return all, err
}

// ownTunnels lists the VXLAN devices of this package.
func ownTunnels() ([]*netlink.Vxlan, error) {
	all, err := listTunnels()
	return slices.DeleteFunc(all, func(tunnel *netlink.Vxlan) bool { return !ours(tunnel) }), err
}

// Tunnels lists the VXLAN devices of this package.
func (*Node) Tunnels() ([]*netlink.Vxlan, error) { return ownTunnels() }

// eachLink calls f for each selected device until f returns false. The kernel selects, and lists devices as they are
// read.
func eachLink(wanted choice, f func(netlink.Link) bool) error {
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	if wanted.master != 0 {
		request.AddData(nl.NewRtAttr(unix.IFLA_MASTER, nl.Uint32Attr(uint32(wanted.master))))
	}
	if wanted.kind != "" {
		info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
		info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated(wanted.kind))
		request.AddData(info)
	}
	var errRead error
	err := request.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWLINK, func(message []byte) bool {
		link, err := netlink.LinkDeserialize(nil, message)
		if err != nil {
			errRead = err
			return false
		}
		return f(link)
	})
	if err := errors.Join(err, errRead); err != nil {
		return fmt.Errorf("list devices: %w", err)
	}
	return nil
}
