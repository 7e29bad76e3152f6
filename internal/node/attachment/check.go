// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Expected is what an earlier Add reported of the attachment.
type Expected struct {
	MAC    net.HardwareAddr
	IPs    []*current.IPConfig
	Routes []*types.Route
	// Sysctls are the settings in the pod.
	Sysctls map[string]string
	// MTU is that of the pod's interface; 0: any, with which the node's end and ktsnd must agree.
	MTU int
}

// Check compares the attachment with what Add made, and reports all differences at once.
func Check(ctx context.Context, s *Spec, want *Expected) error {
	netns, err := s.openNetns()
	if err != nil {
		return err
	}
	defer netns.Close()
	node, store, err := s.open()
	if err != nil {
		return err
	}
	defer node.Close()
	r := store.readOr(&s.Record)
	if !r.hasPort() {
		if err := errors.Join(r.checkCard(), r.checkKata()); err != nil {
			return coded(CodeDiffers, err)
		}
		return s.IPAM.Run(ctx, "CHECK", &s.Record)
	}

	all := netns.Do(func(ns.NetNS) error { return errors.Join(s.checkPod(want), r.checkDevice(want.MTU)) })
	all = errors.Join(all, node.CheckNetwork(ctx, &s.Overlay),
		node.CheckPort(&s.Overlay, &s.Attachment, overlay.PortMTU(want.MTU, frontBytes(r.Capture)), want.MAC),
		r.checkGuard(node),
		r.checkKata(),
		r.checkRings(ctx, node),
		s.checkEndpoint(ctx, want))
	if errors.Is(all, errKtsndSilent) {
		return all
	}
	if all != nil {
		return coded(CodeDiffers, all)
	}
	return s.IPAM.Run(ctx, "CHECK", &s.Record)
}

// checkPod compares the pod's side, and fills in want.MTU. It runs inside the pod's network namespace.
func (r *Record) checkPod(want *Expected) error {
	link, err := netlink.LinkByName(r.Interface)
	if err != nil {
		return fmt.Errorf("the pod has no interface %s", r.Interface)
	}
	attributes := link.Attrs()
	var all error
	differs := func(format string, arguments ...any) {
		all = errors.Join(all, fmt.Errorf(r.Interface+" in the pod "+format, arguments...))
	}
	if link.Type() != "veth" {
		differs("is a device of type %s, not veth", link.Type())
	}
	if attributes.Flags&net.FlagUp == 0 {
		differs("is down")
	}
	if attributes.HardwareAddr.String() != want.MAC.String() {
		differs("has the hardware address %s, not %s", attributes.HardwareAddr, want.MAC)
	}
	if want.MTU != 0 && attributes.MTU != want.MTU {
		differs("has an MTU of %d, not %d", attributes.MTU, want.MTU)
	}
	want.MTU = attributes.MTU
	return errors.Join(all, r.checkAddresses(link, want), r.checkRoutes(link, want), r.checkSysctls(want))
}

func (r *Record) checkAddresses(link netlink.Link, want *Expected) error {
	have, err := netdev.Dump(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("list the addresses of %s in the pod: %w", r.Interface, err)
	}
	var all error
	for _, ip := range want.IPs {
		if !slices.ContainsFunc(have, func(address netlink.Addr) bool { return address.IPNet.String() == ip.Address.String() }) {
			all = errors.Join(all, fmt.Errorf("%s in the pod lacks the address %s", r.Interface, &ip.Address))
		}
	}
	return all
}

func (r *Record) checkRoutes(link netlink.Link, want *Expected) error {
	var all error
	for _, route := range want.Routes {
		wanted := kernelRoute(route, link.Attrs().Index)
		mask := netlink.RT_FILTER_OIF | netlink.RT_FILTER_DST
		if wanted.Gw != nil {
			mask |= netlink.RT_FILTER_GW
		}
		if wanted.Table != 0 {
			mask |= netlink.RT_FILTER_TABLE
		}
		family := netlink.FAMILY_V6
		if isIPv4(route.Dst.IP) {
			family = netlink.FAMILY_V4
		}
		have, err := netdev.Dump(func() ([]netlink.Route, error) { return netlink.RouteListFiltered(family, wanted, mask) })
		if err != nil {
			return fmt.Errorf("list the pod's routes: %w", err)
		}
		if len(have) == 0 {
			all = errors.Join(all, fmt.Errorf("the pod lacks the route to %s through %s", &route.Dst, r.Interface))
		}
	}
	return all
}

func (r *Record) checkSysctls(want *Expected) error {
	var all error
	for _, name := range slices.Sorted(maps.Keys(want.Sysctls)) {
		text, err := os.ReadFile(r.sysctlPath(strings.ReplaceAll(name, ".", "/")))
		if err != nil {
			all = errors.Join(all, fmt.Errorf("read the pod's %s: %w", name, err))
			continue
		}
		have, want := strings.Join(strings.Fields(string(text)), " "), strings.Join(strings.Fields(want.Sysctls[name]), " ")
		if have != want {
			all = errors.Join(all, fmt.Errorf("the pod's %s is %q, not %q", name, have, want))
		}
	}
	return all
}

// checkEndpoint compares ktsnd's endpoint with the attachment.
func (r *Record) checkEndpoint(ctx context.Context, want *Expected) error {
	daemon, err := dialDaemon(ctx, r.ControlSocket)
	if err != nil || daemon == nil {
		return err
	}
	defer daemon.close()
	endpoints, err := daemon.Endpoints(ctx)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(endpoints, func(endpoint control.AttachedEndpoint) bool {
		return endpoint.Identity == r.Identity && endpoint.Interface == r.Interface
	})
	if at < 0 {
		return fmt.Errorf("ktsnd does not know interface %s of %s; if it was restarted, run `ktsn node restore`", r.Interface, r.Identity)
	}
	return r.compareEndpoint(&endpoints[at], want)
}

func (r *Record) compareEndpoint(have *control.AttachedEndpoint, want *Expected) error {
	var all error
	differs := func(format string, arguments ...any) {
		all = errors.Join(all, fmt.Errorf("ktsnd's endpoint "+r.Interface+" "+format, arguments...))
	}
	if have.VNI != r.VNI {
		differs("is in network %d, not %d", have.VNI, r.VNI)
	}
	if have.Bridge != r.Bridge {
		differs("is on bridge %q, not %s", have.Bridge, r.Bridge)
	}
	if have.Netns != r.Netns && !sameFile(have.Netns, r.Netns) {
		differs("is in network namespace %s, not %s", have.Netns, r.Netns)
	}
	if have.MAC != want.MAC.String() {
		differs("has the hardware address %s, not %s", have.MAC, want.MAC)
	}
	if have.MTU != want.MTU {
		differs("has an MTU of %d, not %d", have.MTU, want.MTU)
	}
	return all
}

func sameFile(a, b string) bool {
	first, errFirst := os.Stat(a)
	second, errSecond := os.Stat(b)
	return errFirst == nil && errSecond == nil && os.SameFile(first, second)
}
