// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"net"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
)

// chain appends a result to that of the plugins before this one in a chain. A nil result adds nothing.
func (r *request) chain(result *current.Result) *current.Result {
	chained := r.Previous
	if chained == nil {
		chained = &current.Result{CNIVersion: current.ImplementedSpecVersion}
	}
	if result == nil {
		return chained
	}
	for _, ip := range result.IPs {
		ip.Interface = current.Int(*ip.Interface + len(chained.Interfaces))
	}
	chained.Interfaces = append(chained.Interfaces, result.Interfaces...)
	chained.IPs = append(chained.IPs, result.IPs...)
	chained.Routes = append(chained.Routes, result.Routes...)
	switch {
	case !r.Standard.DNS.IsEmpty():
		chained.DNS = r.Standard.DNS
	case !result.DNS.IsEmpty():
		chained.DNS = result.DNS
	}
	return chained
}

// print writes a result in the version of the configuration.
func (r *request) print(result *current.Result) error {
	leaveOutLater(result, r.Standard.CNIVersion)
	return types.PrintResult(result, r.Standard.CNIVersion)
}

// leaveOutLater removes fields from a result that a version of the specification does not have.
func leaveOutLater(result *current.Result, specVersion string) {
	if has11, err := version.GreaterThanOrEqualTo(specVersion, "1.1.0"); err == nil && !has11 {
		for _, device := range result.Interfaces {
			device.Mtu, device.SocketPath, device.PciID = 0, "", ""
		}
	}
}

// expected parses the result of ADD, with which CHECK compares.
func (r *request) expected() (*attachment.Expected, error) {
	if r.Previous == nil {
		return nil, invalid("prevResult: missing; CHECK compares with the result of ADD")
	}
	index := slices.IndexFunc(r.Previous.Interfaces, func(device *current.Interface) bool {
		return device.Name == r.Interface && device.Sandbox != ""
	})
	if index < 0 {
		return nil, invalid("prevResult: no interface %s in it; CHECK compares with the result of ADD", r.Interface)
	}
	device := r.Previous.Interfaces[index]
	mac, err := net.ParseMAC(device.Mac)
	if err != nil {
		return nil, invalid("prevResult: %s has the hardware address %q", device.Name, device.Mac)
	}
	want := &attachment.Expected{MAC: mac, MTU: device.Mtu, Sysctls: r.Sysctls}
	for _, ip := range r.Previous.IPs {
		if ip.Interface != nil && *ip.Interface == index {
			want.IPs = append(want.IPs, ip)
		}
	}
	want.Routes = r.routesThrough(want.IPs)
	return want, nil
}

// routesThrough returns the routes of a result that lead through the interface with these addresses. A result does not say so;
// routes of the chain's other interfaces are included if their family and gateway match.
func (r *request) routesThrough(ips []*current.IPConfig) []*types.Route {
	isIPv4 := func(address net.IP) bool { return address.To4() != nil }
	var routes []*types.Route
	for _, route := range r.Previous.Routes {
		if slices.ContainsFunc(ips, func(ip *current.IPConfig) bool {
			return isIPv4(ip.Address.IP) == isIPv4(route.Dst.IP) && (route.GW == nil || ip.Address.Contains(route.GW))
		}) {
			routes = append(routes, route)
		}
	}
	return routes
}
