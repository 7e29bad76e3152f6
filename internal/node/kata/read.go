// SPDX-License-Identifier: Apache-2.0

package kata

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// permanent are the states of neighbours that need no resolution.
const permanent = unix.NUD_PERMANENT | unix.NUD_NOARP

// ReadInterface returns the configuration of an interface of the pod, so that the machine can configure its own alike.
// It runs in the pod's network namespace.
func ReadInterface(link netlink.Link) (NetworkInfo, error) {
	info := NetworkInfo{Interface: Interface{Addresses: []string{}, MTU: link.Attrs().MTU, Type: "tuntap"}, Routes: []Route{}, Neighbors: []Neighbor{}}
	for _, read := range []func(netlink.Link) error{info.readAddresses, info.readRoutes, info.readNeighbors} {
		if err := read(link); err != nil {
			return info, fmt.Errorf("read how %s is set up: %w", link.Attrs().Name, err)
		}
	}
	return info, nil
}

func (n *NetworkInfo) readAddresses(link netlink.Link) error {
	addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	for _, address := range addresses {
		// The machine's kernel adds its own link-local addresses.
		if !isOfLink(address.IP) {
			n.Interface.Addresses = append(n.Interface.Addresses, address.IPNet.String())
		}
	}
	return err
}

// readRoutes leaves out the routes that follow from the addresses. A default route has no destination, as in files of
// Kata, unless only the destination shows its family: runtime-rs rejects such a file.
func (n *NetworkInfo) readRoutes(link netlink.Link) error {
	routes, err := netlink.RouteList(link, netlink.FAMILY_ALL)
	for _, route := range routes {
		if route.Protocol == unix.RTPROT_KERNEL || (route.Dst != nil && isOfLink(route.Dst.IP)) {
			continue
		}
		entry := Route{Gateway: text(route.Gw), Source: text(route.Src), Scope: int(route.Scope)}
		if route.Dst != nil && (!isDefault(route.Dst) || (entry.Gateway == "" && entry.Source == "")) {
			entry.Destination = route.Dst.String()
		}
		n.Routes = append(n.Routes, entry)
	}
	return err
}

// isOfLink tells whether the kernel makes addresses like this one by itself. Of IPv4 somebody has given them: gateways of pods are
// called so.
func isOfLink(ip net.IP) bool { return ip.To4() == nil && ip.IsLinkLocalUnicast() }

func isDefault(destination *net.IPNet) bool {
	ones, _ := destination.Mask.Size()
	return ones == 0
}

func text(ip net.IP) string {
	if ip == nil {
		return ""
	}
	return ip.String()
}

func (n *NetworkInfo) readNeighbors(link netlink.Link) error {
	neighbors, err := netlink.NeighList(link.Attrs().Index, netlink.FAMILY_ALL)
	for _, neighbor := range neighbors {
		if neighbor.State&permanent != 0 && neighbor.IP != nil && !neighbor.IP.IsMulticast() && len(neighbor.HardwareAddr) == 6 {
			n.Neighbors = append(n.Neighbors, Neighbor{Address: neighbor.IP.String(), HardwareAddress: neighbor.HardwareAddr.String(), State: neighbor.State})
		}
	}
	return err
}
