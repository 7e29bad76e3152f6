// SPDX-License-Identifier: Apache-2.0

package podnetworks

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// routed is a network of Flannel's kind: each node has a subnet with a bridge, and a route to the subnet of the other
// node.
type routed struct {
	// device is the network's interface in pods, bridge on nodes, whose ports' names begin with port.
	device, bridge, port string
	// second is the second byte of the network's addresses, 10.second.node.pod.
	second byte
	// tunnel is the VXLAN device, empty where nodes are gateways for each other.
	tunnel string
}

var routedBy = map[string]*routed{
	Flannel:       {device: "fl0", bridge: "cni0", port: "fl", second: 44, tunnel: "flannel.1"},
	FlannelHostGW: {device: "gw0", bridge: "cni1", port: "gw", second: 45},
}

const (
	// Flannel's own values for its VXLAN.
	flannelVNI  = 1
	flannelPort = 8472
	subnetBits  = 24
	networkBits = 16
)

func (r *routed) address(side int, last byte) netip.Addr {
	return netip.AddrFrom4([4]byte{10, r.second, byte(side), last})
}

func (r *routed) podAddress(side, number int) netip.Addr {
	return r.address(side, byte(number+2))
}

func (r *routed) mtu(link int) int {
	if r.tunnel == "" {
		return link
	}
	return link - EncapsulationBytes
}

func (n *Networks) makeRouted(by *routed) error {
	hardware := map[int]net.HardwareAddr{}
	for _, side := range []int{sideA, sideB} {
		err := n.node(side).Do(func() (err error) {
			hardware[side], err = n.makeSide(by, side)
			return err
		})
		if err != nil {
			return err
		}
		for number, pod := range n.pods(side) {
			if err := pod.Do(func() error { return by.preparePod(side, number) }); err != nil {
				return err
			}
		}
	}
	for _, side := range []int{sideA, sideB} {
		other := sideA + sideB - side
		if err := n.node(side).Do(func() error { return by.addPeer(other, n.nodeAddress(other), hardware[other]) }); err != nil {
			return err
		}
	}
	return nil
}

// makeSide creates the devices of a node, and returns the hardware address of its tunnel, if any.
func (n *Networks) makeSide(by *routed, side int) (net.HardwareAddr, error) {
	mtu := by.mtu(n.wanted.LinkMTU)
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return nil, fmt.Errorf("have the node forward: %w", err)
	}
	if err := makeBridge(by.bridge, mtu); err != nil {
		return nil, err
	}
	if err := topology.AddAddress(by.bridge, netip.PrefixFrom(by.address(side, 1), subnetBits)); err != nil {
		return nil, err
	}
	for number, pod := range n.pods(side) {
		if err := plug(pod, by.device, by.bridge, by.port+strconv.Itoa(number+1), mtu); err != nil {
			return nil, err
		}
	}
	if by.tunnel == "" {
		return nil, nil
	}
	return by.makeTunnel(n.nodeAddress(side), side, mtu)
}

func (r *routed) makeTunnel(local netip.Addr, side, mtu int) (net.HardwareAddr, error) {
	uplink, err := netlink.LinkByName(topology.PhysicalInterface)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", topology.PhysicalInterface, err)
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU = r.tunnel, mtu
	tunnel := &netlink.Vxlan{LinkAttrs: attributes, VxlanId: flannelVNI, VtepDevIndex: uplink.Attrs().Index,
		SrcAddr: net.IP(local.AsSlice()), Port: flannelPort}
	if err := netlink.LinkAdd(tunnel); err != nil {
		return nil, fmt.Errorf("make VXLAN device %s: %w", r.tunnel, err)
	}
	if err := topology.AddAddress(r.tunnel, netip.PrefixFrom(r.address(side, 0), 32)); err != nil {
		return nil, err
	}
	if err := topology.SetUp(r.tunnel); err != nil {
		return nil, err
	}
	link, err := netlink.LinkByName(r.tunnel)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", r.tunnel, err)
	}
	return link.Attrs().HardwareAddr, nil
}

// preparePod gives a pod its address and routes.
func (r *routed) preparePod(side, number int) error {
	if err := topology.AddAddress(r.device, netip.PrefixFrom(r.podAddress(side, number), subnetBits)); err != nil {
		return err
	}
	if err := topology.SetUp(r.device); err != nil {
		return err
	}
	return route(netip.PrefixFrom(r.address(0, 0), networkBits), r.address(side, 1), r.device, false)
}

// addPeer adds the other node's subnet to a node.
func (r *routed) addPeer(other int, node netip.Addr, hardware net.HardwareAddr) error {
	subnet := netip.PrefixFrom(r.address(other, 0), subnetBits)
	if r.tunnel == "" {
		return route(subnet, node, topology.PhysicalInterface, false)
	}
	if err := route(subnet, r.address(other, 0), r.tunnel, true); err != nil {
		return err
	}
	return topology.OnLink(r.tunnel, "tell of the other node", func(link netlink.Link) error {
		index, end := link.Attrs().Index, net.IP(node.AsSlice())
		err := netlink.NeighSet(&netlink.Neigh{LinkIndex: index, State: netlink.NUD_PERMANENT, Type: unix.RTN_UNICAST,
			IP: net.IP(r.address(other, 0).AsSlice()), HardwareAddr: hardware})
		if err != nil {
			return err
		}
		return netlink.NeighSet(&netlink.Neigh{LinkIndex: index, State: netlink.NUD_PERMANENT, Family: unix.AF_BRIDGE,
			Flags: netlink.NTF_SELF, IP: end, HardwareAddr: hardware})
	})
}
