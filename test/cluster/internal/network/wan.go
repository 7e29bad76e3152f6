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

// wanSubnet joins the routers of a federation. It is seen in network namespaces of the federation only (RFC 5737).
var wanSubnet = netip.MustParsePrefix("203.0.113.0/24")

const (
	// routerPort is the switch's port to the router.
	routerPort = "router"
	// wanUplink is the router's interface towards the WAN.
	wanUplink = "wan"
)

// Site is a cluster, or the hub itself, on the WAN of a federation.
type Site struct {
	// ID is that of the cluster.
	ID string `json:"id"`
	// Name is the cluster's.
	Name   string       `json:"name"`
	Subnet netip.Prefix `json:"subnet"`
	// Address is the router's on the WAN.
	Address netip.Addr `json:"address"`
	// MTU is how large packets between the site and others may be.
	MTU int `json:"mtu"`
}

// NewSite gives a cluster the number-th place on the WAN, from 1.
func NewSite(p *plan.Plan, number int) (Site, error) {
	bytes := wanSubnet.Addr().As4()
	bytes[3] = byte(number)
	address := netip.AddrFrom4(bytes)
	if number < 1 || number > 254 {
		return Site{}, fmt.Errorf("a federation has 254 clusters at most, and %s would be number %d", p.Name, number)
	}
	return Site{ID: p.ID, Name: p.Name, Subnet: p.Subnet, Address: address, MTU: plan.UplinkMTU}, nil
}

// sitePort is the WAN's port to the router of the cluster with that ID.
func sitePort(id string) string { return "site-" + id }

// CreateWAN makes the network between the routers of a federation.
func CreateWAN(ctx context.Context, hub *plan.Plan) error {
	return addBridge(ctx, hub.WAN())
}

// Connected tells whether a site's router is there, on the WAN of this hub.
func Connected(ctx context.Context, hub *plan.Plan, site Site) bool {
	return linkExistsIn(ctx, hub.WAN(), sitePort(site.ID)) && linkExistsIn(ctx, plan.RouterOf(site.ID), wanUplink)
}

// routerMAC gives a router that is made anew the addresses that its neighbours know.
func routerMAC(id string, number int) string {
	return fmt.Sprintf("02:%02x:%s:%s:%s:00", number, id[0:2], id[2:4], id[4:6])
}

// ConnectSite gives a cluster a router on the WAN, in place of one that it may have. The nodes reach through it whatever is not
// theirs; where it leads is up to Route.
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

// routeNode has a node send to the router, if there is one, what is not for its own subnet.
func routeNode(ctx context.Context, p *plan.Plan, node plan.Node) error {
	if !exists(p.Router()) || !exists(p.Namespace(node.Name)) {
		return nil
	}
	return batch(ctx, p.Namespace(node.Name), fmt.Sprintf("route replace default via %s dev %s", p.RouterAddress(), plan.Uplink))
}

// Route tells the router of each site where the others are, and how large packets on the way may be. The router tells senders of larger
// ones.
func Route(ctx context.Context, sites []Site) error {
	var problems error
	for _, from := range sites {
		var routes []string
		for _, to := range sites {
			if to.ID != from.ID {
				routes = append(routes, fmt.Sprintf("route replace %s via %s mtu lock %d", to.Subnet, to.Address, min(from.MTU, to.MTU)))
			}
		}
		// Of a cluster that was taken down there is no router, and of one whose hub was not always this one no uplink.
		if router := plan.RouterOf(from.ID); len(routes) > 0 && linkExistsIn(ctx, router, wanUplink) {
			problems = errors.Join(problems, batch(ctx, router, routes...))
		}
	}
	return problems
}

// linkExistsIn tells whether there is an interface of that name in a network namespace, which need not be there.
func linkExistsIn(ctx context.Context, namespace, link string) bool {
	return exists(namespace) && batch(ctx, namespace, "link show "+link) == nil
}

// DisconnectSite removes a cluster's router. That there is none is no error.
func DisconnectSite(ctx context.Context, hub, p *plan.Plan) error {
	var problems error
	// The ports go with the router, but some time later.
	for _, port := range []struct{ at, name string }{{p.Switch(), routerPort}, {hub.WAN(), sitePort(p.ID)}} {
		if linkExistsIn(ctx, port.at, port.name) {
			problems = errors.Join(problems, batch(ctx, port.at, "link del "+port.name))
		}
	}
	return errors.Join(problems, deleteNamespace(ctx, p.Router()))
}

// exists tells whether there is a network namespace of that name.
func exists(namespace string) bool {
	_, err := os.Stat(Path(namespace))
	return !errors.Is(err, fs.ErrNotExist)
}

// SetSiteConnected cuts a site off the WAN, or mends its link.
func SetSiteConnected(ctx context.Context, hub *plan.Plan, site Site, connected bool) error {
	state := "down"
	if connected {
		state = "up"
	}
	return batch(ctx, hub.WAN(), fmt.Sprintf("link set %s %s", sitePort(site.ID), state))
}
