// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The functions in this file but inPod run inside the pod's network namespace.

// inPod calls do inside the pod's network namespace, unless that is gone.
func (r *Record) inPod(do func() error) error {
	if r.Netns == "" || isGone(r.Netns) {
		return nil
	}
	err := ns.WithNetNSPath(r.Netns, func(ns.NetNS) error { return do() })
	if errors.As(err, &ns.NSPathNotExistErr{}) {
		return nil
	}
	return err
}

// configurePod sets the pod's sysctls, addresses and routes, and sets its interface up.
func (s *Spec) configurePod(result *current.Result) error {
	if err := s.setSysctls(hasIPv6(result)); err != nil {
		return err
	}
	link, err := netlink.LinkByName(s.Interface)
	if err != nil {
		return fmt.Errorf("look for %s in the pod: %w", s.Interface, err)
	}
	for _, ip := range result.IPs {
		address := &netlink.Addr{IPNet: &ip.Address}
		if !isIPv4(ip.Address.IP) {
			// IPAM ensures that it is unique; duplicate address detection would take a second.
			address.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(link, address); err != nil {
			return fmt.Errorf("give %s the address %s: %w", s.Interface, &ip.Address, err)
		}
	}
	// Before frames can leave.
	if err := s.guard(); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up in the pod: %w", s.Interface, err)
	}
	for _, route := range result.Routes {
		if err := netlink.RouteAdd(kernelRoute(route, link.Attrs().Index)); err != nil {
			return fmt.Errorf("add the route to %s through %s: %w", &route.Dst, s.Interface, explainRoute(err))
		}
	}
	return nil
}

// announce has the kernel announce the pod's addresses to all, because others may have entries for the pod's old place. An announcement
// when the interface came up did not leave the node: the bridge did not forward yet. The kernel announces again when the hardware address
// is set, also to the same one (arp_notify, ndisc_notify).
func (r *Record) announce(address net.HardwareAddr) error {
	link, err := netlink.LinkByName(r.Interface)
	if err == nil {
		err = netlink.LinkSetHardwareAddr(link, address)
	}
	if err != nil {
		return fmt.Errorf("announce the addresses of %s: %w", r.Interface, err)
	}
	return nil
}

func explainRoute(err error) error {
	if errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("%w: another interface of the pod has one; leave it out of ipam, or give it another priority", err)
	}
	return err
}

func isIPv4(address net.IP) bool { return address.To4() != nil }

func hasIPv6(result *current.Result) bool {
	return slices.ContainsFunc(result.IPs, func(ip *current.IPConfig) bool { return !isIPv4(ip.Address.IP) })
}

// kernelRoute converts a route. A route without a gateway leads to the link itself, where all pods of a network are.
func kernelRoute(route *types.Route, linkIndex int) *netlink.Route {
	entry := &netlink.Route{
		LinkIndex: linkIndex,
		Dst:       &route.Dst,
		Gw:        route.GW,
		MTU:       route.MTU,
		AdvMSS:    route.AdvMSS,
		Priority:  route.Priority,
	}
	if route.GW == nil && isIPv4(route.Dst.IP) {
		entry.Scope = netlink.SCOPE_LINK
	}
	if route.Table != nil {
		entry.Table = *route.Table
	}
	if route.Scope != nil {
		entry.Scope = netlink.Scope(*route.Scope)
	}
	if !isIPv4(route.Dst.IP) && route.Dst.IP.IsMulticast() && route.Table == nil {
		preferForMulticast(entry)
	}
	return entry
}

// preferForMulticast makes a route of IPv6 multicast one that the kernel uses: it looks in the table local first, where each interface has a
// route to ff00::/8 of metric 256.
func preferForMulticast(route *netlink.Route) {
	route.Table, route.Type = unix.RT_TABLE_LOCAL, unix.RTN_MULTICAST
	if route.Priority == 0 {
		route.Priority = 128
	}
}

// setSysctls sets what a pod of this network needs, then the settings of the configuration.
func (s *Spec) setSysctls(withIPv6 bool) error {
	// For announce.
	settings := [][2]string{{"net/ipv4/conf/IFNAME/arp_notify", "1"}}
	if withIPv6 {
		settings = append(settings, [2]string{"net/ipv6/conf/IFNAME/disable_ipv6", "0"},
			[2]string{"net/ipv6/conf/IFNAME/accept_ra", "0"},
			// Neighbours are solicited from the link-local address, which detection of duplicates would withhold for two seconds. It
			// follows from the hardware address, and is as unique.
			[2]string{"net/ipv6/conf/IFNAME/accept_dad", "0"},
			[2]string{"net/ipv6/conf/IFNAME/keep_addr_on_down", "1"},
			[2]string{"net/ipv6/conf/IFNAME/ndisc_notify", "1"})
	} else if _, err := os.Stat("/proc/sys/net/ipv6"); err == nil {
		settings = append(settings, [2]string{"net/ipv6/conf/IFNAME/disable_ipv6", "1"})
	}
	for _, setting := range settings {
		if err := os.WriteFile(s.sysctlPath(setting[0]), []byte(setting[1]), 0); err != nil {
			return fmt.Errorf("set %s in the pod: %w", setting[0], err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Sysctls)) {
		err := os.WriteFile(s.sysctlPath(strings.ReplaceAll(name, ".", "/")), []byte(s.Sysctls[name]), 0)
		if errors.Is(err, fs.ErrNotExist) {
			return coded(types.ErrInvalidNetworkConfig, fmt.Errorf("sysctl: the pod has no %s; see sysctl -a there", name))
		}
		if err != nil {
			return coded(types.ErrInvalidNetworkConfig, fmt.Errorf("sysctl: set %s to %q: %w", name, s.Sysctls[name], cause(err)))
		}
	}
	return nil
}

// sysctlPath returns the file of a setting. The interface's name may contain dots, so it is inserted last.
// /proc/sys/net shows the network namespace of the thread that opens it.
func (r *Record) sysctlPath(slashed string) string {
	return "/proc/sys/" + strings.ReplaceAll(slashed, "IFNAME", r.Interface)
}
