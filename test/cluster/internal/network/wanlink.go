// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// DelayEnds returns the WAN's interfaces between which a program (package wanlink) carries the frames of a delayed
// site: the port to the router, which then is in no bridge, and the end of a cable whose other end takes its place.
func DelayEnds(site Site) (port, cable string) { return sitePort(site.ID), "cable-" + site.ID }

func cablePort(site Site) string { return "delay-" + site.ID }

// offloads leave work to the receiver: a program that reads frames would get incomplete ones.
var offloads = []string{"tx", "sg", "tso", "gso", "tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation"}

func setOffloads(ctx context.Context, namespace, link, state string) error {
	command := []string{"ethtool", "-K", link}
	for _, offload := range offloads {
		command = append(command, offload, state)
	}
	return inNamespace(ctx, namespace, command...)
}

// OpenSiteLink takes a site's port out of the WAN's bridge and puts the cable in its place. Nothing passes until a
// program carries frames between DelayEnds.
func OpenSiteLink(ctx context.Context, hub *plan.Plan, site Site) error {
	if err := CloseSiteLink(ctx, hub, site); err != nil {
		return err
	}
	port, cable := DelayEnds(site)
	err := batch(ctx, hub.WAN(),
		"link set "+port+" nomaster",
		fmt.Sprintf("link add %s type veth peer name %s", cablePort(site), cable),
		fmt.Sprintf("link set %s up", cable),
		fmt.Sprintf("link set %s master %s up", cablePort(site), bridge))
	if err != nil {
		return err
	}
	if err := setOffloads(ctx, plan.RouterOf(site.ID), wanUplink, "off"); err != nil {
		return err
	}
	return setOffloads(ctx, hub.WAN(), cablePort(site), "off")
}

// CloseSiteLink removes the cable and puts the port back.
func CloseSiteLink(ctx context.Context, hub *plan.Plan, site Site) error {
	if !linkExistsIn(ctx, hub.WAN(), cablePort(site)) {
		return nil
	}
	if err := batch(ctx, hub.WAN(), "link del "+cablePort(site)); err != nil {
		return err
	}
	port, _ := DelayEnds(site)
	if !linkExistsIn(ctx, hub.WAN(), port) {
		return nil
	}
	if err := batch(ctx, hub.WAN(), fmt.Sprintf("link set %s master %s", port, bridge)); err != nil {
		return err
	}
	return setOffloads(ctx, plan.RouterOf(site.ID), wanUplink, "on")
}
