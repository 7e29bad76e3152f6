// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
)

// Addresses of a topology with a router: node b in another subnet, and the router's two interfaces.
var (
	RoutedAddressB = netip.MustParseAddr("198.51.100.2")
	routerAddressA = netip.MustParseAddr("192.0.2.254")
	routerAddressB = netip.MustParseAddr("198.51.100.254")
)

// RouterInterfaces are the router's interfaces to node a and b.
var RouterInterfaces = []string{"to-a", "to-b"}

// CreateRouted creates a topology whose nodes are in two subnets with a router between, like nodes of two clusters, or
// leaves nothing behind.
func CreateRouted(ctx context.Context) (*Topology, error) {
	return createJoined(ctx, RoutedAddressB, (*Topology).routeNodes)
}

func (t *Topology) routeNodes() error {
	router, err := NewNamespace(t.ID.namespace("router"))
	if err != nil {
		return err
	}
	t.Router = router
	if err := router.Do(prepareRouter); err != nil {
		return fmt.Errorf("prepare the router: %w", err)
	}
	for i, side := range []struct {
		node         *Namespace
		address, via netip.Addr
	}{{t.NodeA, t.AddressA, routerAddressA}, {t.NodeB, t.AddressB, routerAddressB}} {
		if err := t.toRouter(side.node, RouterInterfaces[i], side.address, side.via); err != nil {
			return fmt.Errorf("link a node and the router: %w", err)
		}
	}
	return nil
}

func (t *Topology) toRouter(node *Namespace, routerInterface string, address, via netip.Addr) error {
	if err := makeVeth(node, PhysicalInterface, t.Router, routerInterface, physicalMTU); err != nil {
		return err
	}
	if err := addAddress(t.Router, routerInterface, via, nodePrefixBits); err != nil {
		return err
	}
	if err := addAddress(node, PhysicalInterface, address, nodePrefixBits); err != nil {
		return err
	}
	return node.Do(func() error {
		if err := netlink.RouteAdd(&netlink.Route{Gw: net.IP(via.AsSlice())}); err != nil {
			return fmt.Errorf("add a route by %s: %w", via, err)
		}
		return nil
	})
}

func prepareRouter() error {
	if err := prepareNamespace(); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return fmt.Errorf("have it forward: %w", err)
	}
	return nil
}
