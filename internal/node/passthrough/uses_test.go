// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"net"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/bench/topology"
	"github.com/kubernetsn/kubernetsn/internal/shared/testenv"
)

const interfaceName = "eth1"

func TestWhatIsOnTopOfAnInterfaceGoesWithIt(t *testing.T) {
	testenv.Root(t)
	for name, test := range map[string]struct {
		make func() error
		want []string
	}{
		"nothing":                      {make: func() error { return nil }},
		"an address of its own":        {make: func() error { return addressed(interfaceName, "192.0.2.1/24") }, want: []string{"eth1 has the address 192.0.2.1/24"}},
		"an address of the link alone": {make: func() error { return addressed(interfaceName, "fe80::1/64") }},
		"an address of another":        {make: func() error { return addressed("other", "192.0.2.1/24") }},
		"a bridge with an address":     {make: func() error { return bridged("192.0.2.1/24") }, want: []string{"br0 has the address 192.0.2.1/24"}},
		"a bridge without one":         {make: func() error { return bridged("") }},
		"a MACVLAN with an address": {make: func() error {
			return onTop(func(own netlink.LinkAttrs) netlink.Link {
				return &netlink.Macvlan{LinkAttrs: own, Mode: netlink.MACVLAN_MODE_BRIDGE}
			})
		}, want: []string{"top0 has the address 192.0.2.1/24"}},
		"a default route": {make: func() error {
			link, err := netlink.LinkByName(interfaceName)
			if err == nil {
				err = addressed(interfaceName, "192.0.2.1/24")
			}
			if err == nil {
				err = netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}})
			}
			return err
		}, want: []string{"eth1 has the address 192.0.2.1/24", "eth1 has a default route"}},
	} {
		t.Run(name, func(t *testing.T) {
			var uses []string
			err := namespace(t).Do(func() (err error) {
				if err = test.make(); err == nil {
					uses, err = Uses(interfaceName)
				}
				return err
			})
			if err != nil || !slices.Equal(uses, test.want) {
				t.Errorf("the uses are %q, %v, and should be %q", uses, err, test.want)
			}
		})
	}
}

// namespace has the interface, which is up, and its peer.
func namespace(t *testing.T) *topology.Namespace {
	t.Helper()
	id, err := topology.NewID()
	if err != nil {
		t.Fatal(err)
	}
	made, err := topology.NewNamespace(id.String() + "-uses")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := made.Destroy(); err != nil {
			t.Error(err)
		}
	})
	if err := made.Do(func() error {
		own := netlink.NewLinkAttrs()
		own.Name = interfaceName
		return add(&netlink.Veth{LinkAttrs: own, PeerName: "other"}, "other")
	}); err != nil {
		t.Fatal(err)
	}
	return made
}

// add makes a link, and sets it and others up.
func add(link netlink.Link, others ...string) error {
	if err := netlink.LinkAdd(link); err != nil {
		return err
	}
	for _, name := range append(others, link.Attrs().Name) {
		found, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(found); err != nil {
			return err
		}
	}
	return nil
}

func addressed(name, address string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	parsed, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	return netlink.AddrAdd(link, parsed)
}

// bridged makes the interface a port of a bridge.
func bridged(address string) error {
	own := netlink.NewLinkAttrs()
	own.Name = "br0"
	bridge := &netlink.Bridge{LinkAttrs: own}
	if err := add(bridge); err != nil {
		return err
	}
	link, err := netlink.LinkByName(interfaceName)
	if err == nil {
		err = netlink.LinkSetMaster(link, bridge)
	}
	if err == nil && address != "" {
		err = addressed("br0", address)
	}
	return err
}

// onTop makes a link on the interface, with an address.
func onTop(of func(own netlink.LinkAttrs) netlink.Link) error {
	link, err := netlink.LinkByName(interfaceName)
	if err != nil {
		return err
	}
	own := netlink.NewLinkAttrs()
	own.Name, own.ParentIndex = "top0", link.Attrs().Index
	if err := add(of(own)); err != nil {
		return err
	}
	return addressed("top0", "192.0.2.1/24")
}
