// SPDX-License-Identifier: Apache-2.0

package pathmtu

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// A node, a router and another node.
var (
	near, routerNear = netip.MustParsePrefix("192.0.2.1/25"), netip.MustParsePrefix("192.0.2.2/25")
	far, routerFar   = netip.MustParsePrefix("192.0.2.129/26"), netip.MustParsePrefix("192.0.2.130/26")
	nowhere          = netip.MustParsePrefix("192.0.2.192/26")
)

// link makes a link between two namespaces, whose ends have these addresses and an MTU each.
func connect(t *testing.T, a *topology.Namespace, aAddress netip.Prefix, aMTU int, b *topology.Namespace, name string, bAddress netip.Prefix, bMTU int) {
	t.Helper()
	end := func(where *topology.Namespace, name string, address netip.Prefix, mtu int) {
		runIn(t, where, func() error {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			return errors.Join(netlink.LinkSetMTU(link, mtu), netlink.LinkSetUp(link),
				netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(address)}))
		})
	}
	runIn(t, a, func() error {
		other, err := os.Open(b.Path())
		if err != nil {
			return err
		}
		defer other.Close()
		attributes := netlink.NewLinkAttrs()
		attributes.Name = "up"
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: name, PeerNamespace: netlink.NsFd(other.Fd())})
	})
	end(a, "up", aAddress, aMTU)
	end(b, name, bAddress, bMTU)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}
}

func runIn(t *testing.T, where *topology.Namespace, work func() error) {
	t.Helper()
	testlab.Must(t, where.Do(work))
}

// pathOf is a node behind a router, by which the far node is reached; the router's ends have these MTUs.
func newPath(t *testing.T, nearMTU, farMTU int) *topology.Namespace {
	t.Helper()
	from, router, to := topology.NewTestNamespace(t, "near"), topology.NewTestNamespace(t, "router"), topology.NewTestNamespace(t, "far")
	connect(t, from, near, 1500, router, "near", routerNear, nearMTU)
	connect(t, to, far, 1500, router, "far", routerFar, farMTU)
	runIn(t, router, func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) })
	runIn(t, from, func() error { return netlink.RouteAdd(&netlink.Route{Gw: routerNear.Addr().AsSlice()}) })
	runIn(t, to, func() error { return netlink.RouteAdd(&netlink.Route{Gw: routerFar.Addr().AsSlice()}) })
	// So that the answers to packets that follow each other fast come, too.
	runIn(t, to, func() error { return os.WriteFile("/proc/sys/net/ipv4/icmp_ratelimit", []byte("0"), 0) })
	runIn(t, router, func() error { return netlink.RouteAdd(&netlink.Route{Dst: ipNet(nowhere), Type: unix.RTN_BLACKHOLE}) })
	return from
}

func TestFind(t *testing.T) {
	for what, test := range map[string]struct {
		nearMTU, farMTU, largest int
		to                       netip.Prefix
		want                     int
		err                      error
	}{
		"the path carries all":        {1500, 1500, 1500, far, 1500, nil},
		"less is asked for than fits": {1500, 1500, 1450, far, 1450, nil},
		"a router says what fits":     {1500, 1400, 1500, far, 1400, nil},
		// A veth device takes four bytes more than its MTU, for a VLAN tag.
		"what is too large is swallowed":      {1480, 1500, 1500, far, 1484, nil},
		"more than the node's own link":       {1500, 1500, 9000, far, 1500, nil},
		"nothing is said of what arrives not": {1500, 1500, 1500, nowhere, 0, ErrSilent},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			from := newPath(t, test.nearMTU, test.farMTU)
			runIn(t, from, func() error {
				bytes, err := find(t.Context(), test.to.Addr(), test.largest, time.Second)
				if bytes != test.want || !errors.Is(err, test.err) {
					t.Errorf("found %d bytes, %v, want %d", bytes, err, test.want)
				}
				return nil
			})
		})
	}
}
