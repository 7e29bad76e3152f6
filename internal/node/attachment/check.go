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

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// expected is what an earlier ADD said of the attachment.
type expected struct {
	mac    net.HardwareAddr
	ips    []*current.IPConfig
	routes []*types.Route
	// mtu is found on the pod's interface; that the node's end and ktsnd agree is what can be checked.
	mtu int
}

// check compares what there is with what ADD made, and names all differences at once.
func check(ctx context.Context, r *request) error {
	if r.ofLinks() {
		return checkLinks(ctx, r)
	}
	want, err := r.expected()
	if err != nil {
		return err
	}
	netns, err := r.openNetns()
	if err != nil {
		return err
	}
	defer netns.Close()
	node, records, err := r.open()
	if err != nil {
		return err
	}
	defer node.Close()
	made := records.read(&r.Attachment)
	if made == nil {
		made = r.record()
	}
	if !made.hasPort() {
		if err := errors.Join(made.checkCard(), made.checkKata()); err != nil {
			return coded(CodeDiffers, err)
		}
		return r.ipam(ctx, "CHECK")
	}

	all := netns.Do(func(ns.NetNS) error { return errors.Join(r.checkPod(want), made.checkDevice(want.mtu)) })
	all = errors.Join(all, node.CheckNetwork(ctx, &r.Overlay),
		node.CheckPort(&r.Overlay, &r.Attachment, overlay.PortMTU(want.mtu, frontBytes(made.Capture)), want.mac),
		made.checkGuard(node),
		made.checkKata(),
		made.checkRings(ctx, node),
		r.checkEndpoint(ctx, want))
	if errors.Is(all, errKtsndSilent) {
		return all
	}
	if all != nil {
		return coded(CodeDiffers, all)
	}
	return r.ipam(ctx, "CHECK")
}

// expected reads the result of ADD.
func (r *request) expected() (*expected, error) {
	if r.Previous == nil {
		return nil, invalid("prevResult: missing; CHECK compares with the result of ADD")
	}
	for i, made := range r.Previous.Interfaces {
		if made.Name != r.Interface || made.Sandbox == "" {
			continue
		}
		mac, err := net.ParseMAC(made.Mac)
		if err != nil {
			return nil, invalid("prevResult: %s has the hardware address %q", made.Name, made.Mac)
		}
		want := &expected{mac: mac, mtu: made.Mtu}
		for _, ip := range r.Previous.IPs {
			if ip.Interface != nil && *ip.Interface == i {
				want.ips = append(want.ips, ip)
			}
		}
		want.routes = r.ownRoutes(want.ips)
		return want, nil
	}
	return nil, invalid("prevResult: no interface %s in it; CHECK compares with the result of ADD", r.Interface)
}

// ownRoutes are the routes of a result that lead through this plugin's interface, as far as that can be told: a
// result does not say. Of a chain's other interfaces only those of the families that this one has are taken in.
func (r *request) ownRoutes(ips []*current.IPConfig) []*types.Route {
	var own []*types.Route
	for _, route := range r.Previous.Routes {
		if slices.ContainsFunc(ips, func(ip *current.IPConfig) bool {
			return isIPv4(ip.Address.IP) == isIPv4(route.Dst.IP) && (route.GW == nil || ip.Address.Contains(route.GW))
		}) {
			own = append(own, route)
		}
	}
	return own
}

// checkPod compares the pod's side. It runs inside the pod's network namespace, and fills in the MTU.
func (r *request) checkPod(want *expected) error {
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
	if attributes.HardwareAddr.String() != want.mac.String() {
		differs("has the hardware address %s, not %s", attributes.HardwareAddr, want.mac)
	}
	if want.mtu != 0 && attributes.MTU != want.mtu {
		differs("has an MTU of %d, not %d", attributes.MTU, want.mtu)
	}
	want.mtu = attributes.MTU
	return errors.Join(all, r.checkAddresses(link, want), r.checkRoutes(link, want), r.checkSysctls())
}

func (r *request) checkAddresses(link netlink.Link, want *expected) error {
	have, err := again(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("list the addresses of %s in the pod: %w", r.Interface, err)
	}
	var all error
	for _, ip := range want.ips {
		if !slices.ContainsFunc(have, func(address netlink.Addr) bool { return address.IPNet.String() == ip.Address.String() }) {
			all = errors.Join(all, fmt.Errorf("%s in the pod lacks the address %s", r.Interface, &ip.Address))
		}
	}
	return all
}

func (r *request) checkRoutes(link netlink.Link, want *expected) error {
	var all error
	for _, route := range want.routes {
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
		have, err := again(func() ([]netlink.Route, error) { return netlink.RouteListFiltered(family, wanted, mask) })
		if err != nil {
			return fmt.Errorf("list the pod's routes: %w", err)
		}
		if len(have) == 0 {
			all = errors.Join(all, fmt.Errorf("the pod lacks the route to %s through %s", &route.Dst, r.Interface))
		}
	}
	return all
}

// again repeats a list that changed while it was read.
func again[T any](list func() ([]T, error)) (all []T, err error) {
	for range 10 {
		all, err = list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, err
		}
	}
	return all, err
}

func (r *request) checkSysctls() error {
	var all error
	for _, name := range slices.Sorted(maps.Keys(r.Sysctls)) {
		text, err := os.ReadFile(r.sysctlPath(strings.ReplaceAll(name, ".", "/")))
		if err != nil {
			all = errors.Join(all, fmt.Errorf("read the pod's %s: %w", name, err))
			continue
		}
		have, want := strings.Join(strings.Fields(string(text)), " "), strings.Join(strings.Fields(r.Sysctls[name]), " ")
		if have != want {
			all = errors.Join(all, fmt.Errorf("the pod's %s is %q, not %q", name, have, want))
		}
	}
	return all
}

// checkEndpoint looks for the attachment in ktsnd.
func (r *request) checkEndpoint(ctx context.Context, want *expected) error {
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
		return fmt.Errorf("ktsnd does not know interface %s of %s; if it was started anew, run `ktsn node restore`", r.Interface, r.Identity)
	}
	return r.compareEndpoint(&endpoints[at], want)
}

func (r *request) compareEndpoint(have *control.AttachedEndpoint, want *expected) error {
	var all error
	differs := func(format string, arguments ...any) {
		all = errors.Join(all, fmt.Errorf("ktsnd's endpoint "+r.Interface+" "+format, arguments...))
	}
	if have.VNI != r.Overlay.VNI {
		differs("is in network %d, not %d", have.VNI, r.Overlay.VNI)
	}
	if have.Bridge != r.Overlay.Bridge {
		differs("is on bridge %q, not %s", have.Bridge, r.Overlay.Bridge)
	}
	if have.Netns != r.netns && !sameFile(have.Netns, r.netns) {
		differs("is in network namespace %s, not %s", have.Netns, r.netns)
	}
	if have.MAC != want.mac.String() {
		differs("has the hardware address %s, not %s", have.MAC, want.mac)
	}
	if have.MTU != want.mtu {
		differs("has an MTU of %d, not %d", have.MTU, want.mtu)
	}
	return all
}

func sameFile(a, b string) bool {
	first, errFirst := os.Stat(a)
	second, errSecond := os.Stat(b)
	return errFirst == nil && errSecond == nil && os.SameFile(first, second)
}

// unsupported tells whether a plugin does not know a command that came with a later specification.
func unsupported(err error) bool {
	var said *types.Error
	return errors.As(err, &said) && strings.Contains(said.Msg, "unknown CNI_COMMAND")
}
