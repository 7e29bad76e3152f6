// SPDX-License-Identifier: Apache-2.0

package podnetworks

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// The functions without a namespace act on the namespace of the calling thread.

func setMTU(name string, bytes int) error {
	return topology.OnLink(name, "set the MTU of", func(link netlink.Link) error { return netlink.LinkSetMTU(link, bytes) })
}

// route adds a route to a network through a gateway and a device.
func route(to netip.Prefix, gateway netip.Addr, device string, onLinkGateway bool) error {
	return topology.OnLink(device, "add a route through", func(link netlink.Link) error {
		added := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: topology.Network(to.Masked()), Gw: net.IP(gateway.AsSlice())}
		if onLinkGateway {
			added.Flags = int(netlink.FLAG_ONLINK)
		}
		return netlink.RouteAdd(added)
	})
}

func makeBridge(name string, mtuBytes int) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU = name, mtuBytes
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}); err != nil {
		return fmt.Errorf("make bridge %s: %w", name, err)
	}
	return topology.SetUp(name)
}

// plug creates a veth from a pod to a bridge in the calling thread's node.
func plug(pod *topology.Namespace, device, bridge, nodeDevice string, mtuBytes int) (err error) {
	handle, err := os.Open(pod.Path())
	if err != nil {
		return fmt.Errorf("open the pod's namespace: %w", err)
	}
	defer func() { err = errors.Join(err, handle.Close()) }()
	master, err := netlink.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("find %s: %w", bridge, err)
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU, attributes.MasterIndex = nodeDevice, mtuBytes, master.Attrs().Index
	veth := &netlink.Veth{LinkAttrs: attributes, PeerName: device, PeerNamespace: netlink.NsFd(int(handle.Fd()))}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("make veth %s: %w", nodeDevice, err)
	}
	return topology.SetUp(nodeDevice)
}
