// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// closedMetric is that of the routes by which nothing leaves. Those of a link that is plugged go before them.
const closedMetric = 1 << 24

// CloseLink has the pod's kernel refuse what is for the other end of a link, or behind it, as long as the link is not plugged. By the pod's default
// route it would leave the node in clear. The routes last until a link that need not be closed goes there, or the sandbox ends.
func CloseLink(plugged *Plugged) error {
	return ns.WithNetNSPath(plugged.Netns, func(ns.NetNS) error { return plugged.Link.close() })
}

// close refuses it. It runs inside the pod's network namespace.
func (l *Link) close() error {
	var all error
	for _, to := range l.closed() {
		route := closedRoute(to)
		if err := netlink.RouteReplace(&route); err != nil {
			all = errors.Join(all, fmt.Errorf("have the pod refuse what is for %s: %w", to, err))
		}
	}
	return all
}

// open removes refusals of former links that keep messages from this one: of two routes the narrower one counts, so a wider refusal may stay, and does, as
// it may be that of another link. Refusals of this link, if it has any, and of the pod's other links stay: they have no effect before the interface is
// missing.
func (p *plugging) open() error {
	filter := &netlink.Route{Type: unix.RTN_UNREACHABLE, Protocol: linkRouteProtocol}
	var have []netlink.Route
	err := p.netns.Do(func(ns.NetNS) (err error) {
		have, err = again(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(netlink.FAMILY_ALL, filter, netlink.RT_FILTER_TYPE|netlink.RT_FILTER_PROTOCOL)
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("list what the pod refuses to send: %w", err)
	}
	if len(have) == 0 {
		return nil
	}
	stay, err := p.refusals()
	if err != nil {
		return err
	}
	return p.netns.Do(func(ns.NetNS) error {
		for i := range have {
			to, ok := prefixOf(have[i].Dst)
			covers := func(by netip.Prefix) bool { return by.Bits() <= to.Bits() && by.Contains(to.Addr()) }
			if !ok || stay[to] || !slices.ContainsFunc(p.Link.closed(), covers) {
				continue
			}
			route := closedRoute(to)
			if err := netlink.RouteDel(&route); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("have the pod send to %s again: %w", to, err)
			}
		}
		return nil
	})
}

// refusals returns what the pod's links refuse while their interfaces are missing, this one's included.
func (p *plugging) refusals() (map[netip.Prefix]bool, error) {
	all, err := p.records.linksOf(p.ContainerID)
	if err != nil {
		return nil, err
	}
	refused := map[netip.Prefix]bool{}
	for _, one := range all {
		if one.Link == nil || !one.Link.Closed {
			continue
		}
		for _, to := range one.Link.closed() {
			refused[to] = true
		}
	}
	return refused, nil
}

// closed are the ranges to which nothing may go but by the link.
func (l *Link) closed() []netip.Prefix {
	var all []netip.Prefix
	for _, own := range l.Addresses {
		all = append(all, own.Masked()) // both ends
	}
	return append(all, l.Routes...)
}

func closedRoute(to netip.Prefix) netlink.Route {
	return netlink.Route{Type: unix.RTN_UNREACHABLE, Dst: ipNet(to), Priority: closedMetric, Protocol: linkRouteProtocol}
}
