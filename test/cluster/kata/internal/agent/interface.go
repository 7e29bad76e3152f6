// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/test/cluster/kata/internal/protocol"
)

// cardPatience is how long the kernel may take to find a card whose driver was just loaded.
const cardPatience = 20 * time.Second

// setUp gives a card the name, addresses, routes and neighbours of the pod's interface.
func setUp(what *protocol.Interface) error {
	link, err := findCard(what.Address)
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return netlink.LinkSetName(link, what.Name) },
		func() error { return netlink.LinkSetMTU(link, what.MTU) },
		func() error { return addAddresses(link, what.IPs) },
		func() error { return netlink.LinkSetUp(link) },
		func() error { return addRoutes(link, what.Routes) },
		func() error { return addNeighbors(link, what.Neighbors) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("set up %s: %w", what.Name, err)
		}
	}
	return nil
}

// findCard finds a card by its hardware address, as Kata's agent does.
func findCard(address string) (netlink.Link, error) {
	wanted, err := net.ParseMAC(address)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(cardPatience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		links, err := netlink.LinkList()
		if err != nil {
			return nil, err
		}
		for _, link := range links {
			if bytes.Equal(link.Attrs().HardwareAddr, wanted) {
				return link, nil
			}
		}
	}
	return nil, fmt.Errorf("the machine has no network card %s", address)
}

func addAddresses(link netlink.Link, all []string) error {
	for _, text := range all {
		address, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		address.Flags = unix.IFA_F_NODAD // the pod's interface on the node has asked already
		if err := netlink.AddrAdd(link, address); err != nil {
			return fmt.Errorf("add address %s: %w", text, err)
		}
	}
	return nil
}

// addRoutes adds the routes of the link first: the kernel needs them to resolve gateways.
func addRoutes(link netlink.Link, all []protocol.Route) error {
	for _, gateways := range []bool{false, true} {
		for _, requested := range all {
			if (requested.Gateway != "") != gateways {
				continue
			}
			route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP(requested.Gateway), Src: net.ParseIP(requested.Source), Scope: netlink.Scope(requested.Scope)}
			if requested.Destination != "" {
				_, destination, err := net.ParseCIDR(requested.Destination)
				if err != nil {
					return err
				}
				route.Dst = destination
			}
			if err := netlink.RouteAdd(route); err != nil && !errors.Is(err, unix.EEXIST) {
				return fmt.Errorf("add route %+v: %w", route, err)
			}
		}
	}
	return nil
}

func addNeighbors(link netlink.Link, all []protocol.Neighbor) error {
	for _, requested := range all {
		address, err := net.ParseMAC(requested.Address)
		if err != nil {
			return err
		}
		neighbor := &netlink.Neigh{LinkIndex: link.Attrs().Index, IP: net.ParseIP(requested.IP), HardwareAddr: address, State: requested.State}
		if err := netlink.NeighSet(neighbor); err != nil {
			return fmt.Errorf("add neighbour %+v: %w", neighbor, err)
		}
	}
	return nil
}
