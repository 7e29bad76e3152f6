// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/test/cluster/kata/internal/protocol"
)

// readInterface returns the configuration that the machine's interface gets.
func readInterface(link netlink.Link) (protocol.Interface, error) {
	attributes := link.Attrs()
	read := protocol.Interface{Name: attributes.Name, Address: attributes.HardwareAddr.String(), MTU: attributes.MTU}
	addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return read, err
	}
	for _, address := range addresses {
		if !ofLink(address.IP) {
			read.IPs = append(read.IPs, address.IPNet.String())
		}
	}
	routes, err := netlink.RouteList(link, netlink.FAMILY_ALL)
	if err != nil {
		return read, err
	}
	for _, route := range routes {
		if route.Protocol == unix.RTPROT_KERNEL {
			continue // those of the addresses
		}
		converted := protocol.Route{Gateway: text(route.Gw), Source: text(route.Src), Scope: int(route.Scope)}
		if route.Dst != nil && !route.Dst.IP.IsUnspecified() {
			converted.Destination = route.Dst.String()
		}
		read.Routes = append(read.Routes, converted)
	}
	neighbors, err := netlink.NeighList(attributes.Index, netlink.FAMILY_ALL)
	for _, neighbor := range neighbors {
		if neighbor.State&unix.NUD_PERMANENT != 0 {
			read.Neighbors = append(read.Neighbors, protocol.Neighbor{IP: text(neighbor.IP), Address: neighbor.HardwareAddr.String(), State: neighbor.State})
		}
	}
	return read, err
}

// ofLink reports whether the kernel adds the address by itself.
func ofLink(ip net.IP) bool { return ip.To4() == nil && ip.IsLinkLocalUnicast() }

func text(ip net.IP) string {
	if ip == nil {
		return ""
	}
	return ip.String()
}
