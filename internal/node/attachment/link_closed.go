// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// refusalsOf returns the metrics of the routes by which nothing leaves to the ends of a pod's link, and to the ranges behind it. Each link has metrics of
// its own, by which its refusals are known without a record, also next to those of another link to the same range. Routes of a plugged link go before them.
func refusalsOf(interfaceName string) (ends, behind int) {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(interfaceName))
	metric := 1<<24 | int(hash.Sum32()>>8)
	return metric, 1<<25 | metric
}

// CloseLink has the pod's kernel refuse what is for the other end of a link, or behind it, as long as the link is not plugged. By the pod's default
// route it would leave the node in clear. The routes last until the link need not be closed, a range is no longer behind it, or the sandbox ends.
func CloseLink(plugged *Plugged) error {
	return ns.WithNetNSPath(plugged.Netns, func(ns.NetNS) error { return plugged.Link.close(plugged.Interface) })
}

// close refuses it. It runs inside the pod's network namespace.
func (l *Link) close(interfaceName string) error {
	var all error
	refuse := func(to netip.Prefix, metric int) {
		route := closedRoute(to, metric)
		if err := netlink.RouteReplace(&route); err != nil {
			all = errors.Join(all, fmt.Errorf("have the pod refuse what is for %s: %w", to, err))
		}
	}
	ends, behind := refusalsOf(interfaceName)
	for _, own := range l.Addresses {
		refuse(own.Masked(), ends) // both ends
	}
	for _, to := range l.Routes {
		refuse(to, behind)
	}
	return all
}

// open removes refusals that the link no longer needs: all if it need not be closed, else those of ranges that are not behind it any more. Addresses of a
// former endpoint stay refused, as the pod may still send to them.
func (p *plugging) open() error {
	ends, behind := refusalsOf(p.Interface)
	filter := &netlink.Route{Type: unix.RTN_UNREACHABLE, Protocol: linkRouteProtocol}
	return p.netns.Do(func(ns.NetNS) error {
		have, err := again(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(netlink.FAMILY_ALL, filter, netlink.RT_FILTER_TYPE|netlink.RT_FILTER_PROTOCOL)
		})
		if err != nil {
			return fmt.Errorf("list what the pod refuses to send: %w", err)
		}
		for i := range have {
			to, ok := prefixOf(have[i].Dst)
			metric := have[i].Priority
			if !ok || metric != ends && metric != behind || p.Link.Closed && (metric == ends || slices.Contains(p.Link.Routes, to)) {
				continue
			}
			route := closedRoute(to, metric)
			if err := netlink.RouteDel(&route); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("have the pod send to %s again: %w", to, err)
			}
		}
		return nil
	})
}

func closedRoute(to netip.Prefix, metric int) netlink.Route {
	return netlink.Route{Type: unix.RTN_UNREACHABLE, Dst: ipNet(to), Priority: metric, Protocol: linkRouteProtocol}
}
