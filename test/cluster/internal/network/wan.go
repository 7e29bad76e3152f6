// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// wanSubnet connects the routers of a federation. It exists only in network namespaces of the federation (RFC 5737).
var wanSubnet = netip.MustParsePrefix("203.0.113.0/24")

const (
	// routerPort is the switch's port to the router.
	routerPort = "router"
	// wanUplink is the router's interface to the WAN.
	wanUplink = "wan"
)

// Site is a cluster, or the hub itself, on the WAN of a federation.
type Site struct {
	// ID is the cluster's ID.
	ID string `json:"id"`
	// Name is the cluster's name.
	Name   string       `json:"name"`
	Subnet netip.Prefix `json:"subnet"`
	// Address is the router's address on the WAN.
	Address netip.Addr `json:"address"`
	// MTU is the MTU between the site and others.
	MTU int `json:"mtu"`
}

// NewSite returns the place of a cluster on the WAN; numbers begin at 1.
func NewSite(p *plan.Plan, number int) (Site, error) {
	bytes := wanSubnet.Addr().As4()
	bytes[3] = byte(number)
	address := netip.AddrFrom4(bytes)
	if number < 1 || number > 254 {
		return Site{}, fmt.Errorf("a federation has 254 clusters at most, and %s would be number %d", p.Name, number)
	}
	return Site{ID: p.ID, Name: p.Name, Subnet: p.Subnet, Address: address, MTU: plan.UplinkMTU}, nil
}

// sitePort returns the WAN's port to the router of the cluster with that ID.
func sitePort(id string) string { return "site-" + id }

// CreateWAN creates the network between the routers of a federation.
func CreateWAN(ctx context.Context, hub *plan.Plan) error {
	return addBridge(ctx, hub.WAN())
}

// Connected reports whether a site's router is on the WAN of this hub.
func Connected(ctx context.Context, hub *plan.Plan, site Site) bool {
	return linkExistsIn(ctx, hub.WAN(), sitePort(site.ID)) && linkExistsIn(ctx, plan.RouterOf(site.ID), wanUplink)
}

// routerMAC returns a stable address, so that neighbours still know a router that was recreated.
func routerMAC(id string, number int) string {
	return fmt.Sprintf("02:%02x:%s:%s:%s:00", number, id[0:2], id[2:4], id[4:6])
}

// ConnectSite gives a cluster a router on the WAN, in place of a previous one. The nodes use it for all other
// destinations; Route adds its routes.
func ConnectSite(ctx context.Context, hub, p *plan.Plan, site Site) error {
	if err := DisconnectSite(ctx, hub, p); err != nil {
		return err
	}
	if err := addNamespace(ctx, p.Router()); err != nil {
		return err
	}
	if err := inNamespace(ctx, p.Router(), "sysctl", "-qw", "net.ipv4.ip_forward=1"); err != nil {
		return err
	}
	for i, link := range []struct{ at, port, uplink string }{{p.Switch(), routerPort, plan.Uplink}, {hub.WAN(), sitePort(site.ID), wanUplink}} {
		err := batch(ctx, link.at,
			fmt.Sprintf("link add %s mtu %d type veth peer name %s address %s mtu %d netns %s",
				link.port, plan.UplinkMTU, link.uplink, routerMAC(site.ID, i), plan.UplinkMTU, p.Router()),
			fmt.Sprintf("link set %s master %s up", link.port, bridge))
		if err != nil {
			return err
		}
	}
	err := batch(ctx, p.Router(),
		"link set lo up",
		fmt.Sprintf("addr add %s dev %s", netip.PrefixFrom(p.RouterAddress(), p.Subnet.Bits()), plan.Uplink),
		fmt.Sprintf("link set %s up", plan.Uplink),
		fmt.Sprintf("addr add %s dev %s", netip.PrefixFrom(site.Address, wanSubnet.Bits()), wanUplink),
		fmt.Sprintf("link set %s up", wanUplink))
	if err != nil {
		return err
	}
	for _, node := range p.Nodes {
		if err := routeNode(ctx, p, node); err != nil {
			return err
		}
	}
	return nil
}

// routeNode routes everything outside a node's own subnet to the router, if there is one.
func routeNode(ctx context.Context, p *plan.Plan, node plan.Node) error {
	if !exists(p.Router()) || !exists(p.Namespace(node.Name)) {
		return nil
	}
	return batch(ctx, p.Namespace(node.Name), fmt.Sprintf("route replace default via %s dev %s", p.RouterAddress(), plan.Uplink))
}

// Route adds routes to the other sites to the router of each site, with the MTU of the way. The router reports the MTU
// to senders of larger packets.
func Route(ctx context.Context, sites []Site) error {
	var problems error
	for _, from := range sites {
		var routes []string
		for _, to := range sites {
			if to.ID != from.ID {
				routes = append(routes, fmt.Sprintf("route replace %s via %s mtu lock %d", to.Subnet, to.Address, min(from.MTU, to.MTU)))
			}
		}
		// A cluster that was taken down has no router, and one that was connected to another hub has no uplink.
		if router := plan.RouterOf(from.ID); len(routes) > 0 && linkExistsIn(ctx, router, wanUplink) {
			problems = errors.Join(problems, batch(ctx, router, routes...))
		}
	}
	return problems
}

// linkExistsIn reports whether a network namespace, which need not exist, has an interface of that name.
func linkExistsIn(ctx context.Context, namespace, link string) bool {
	return exists(namespace) && batch(ctx, namespace, "link show "+link) == nil
}

// DisconnectSite removes a cluster's router. It is not an error if there is none.
func DisconnectSite(ctx context.Context, hub, p *plan.Plan) error {
	var problems error
	// The ports would go with the router, but only later.
	for _, port := range []struct{ at, name string }{{p.Switch(), routerPort}, {hub.WAN(), sitePort(p.ID)}} {
		if linkExistsIn(ctx, port.at, port.name) {
			problems = errors.Join(problems, batch(ctx, port.at, "link del "+port.name))
		}
	}
	return errors.Join(problems, deleteNamespace(ctx, p.Router()))
}

// exists reports whether a network namespace exists.
func exists(namespace string) bool {
	_, err := os.Stat(Path(namespace))
	return !errors.Is(err, fs.ErrNotExist)
}

// SetSiteConnected cuts a site off the WAN, or reconnects it.
func SetSiteConnected(ctx context.Context, hub *plan.Plan, site Site, connected bool) error {
	state := "down"
	if connected {
		state = "up"
	}
	return batch(ctx, hub.WAN(), fmt.Sprintf("link set %s %s", sitePort(site.ID), state))
}
