// SPDX-License-Identifier: Apache-2.0

package services

import (
	"fmt"
	"net/netip"
	"slices"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
)

const (
	// reasonShareUsedUp : a cluster has as many clients linked by the hub as its share of the hub's part allows.
	reasonShareUsedUp = "ShareUsedUp"
	// quotaAtMost bounds a cluster's share where the part is large: all services' links have numbers of one part.
	quotaAtMost = 4096
)

// quota is how many clients of each cluster the hub links: an equal share of what its part has room for, so that no cluster that names clients that
// there are not takes the links of the others.
func quota(service *tsn.TSNService, p *plan) int {
	room := int(p.hub.vnis.Last-p.hub.vnis.First) + 1
	for _, text := range []string{p.hub.ipv4, p.hub.ipv6} {
		part, err := netip.ParsePrefix(text)
		if err != nil {
			continue // without this family
		}
		pairs := 1 << min(part.Addr().BitLen()-1-part.Bits(), 16)
		if part.Addr().Is6() {
			pairs-- // the first address is that of the subnet's routers
		}
		room = min(room, pairs)
	}
	each := room / (1 + len(service.Spec.Chain)) / max(len(p.selected), 1)
	return min(max(each, 1), quotaAtMost)
}

// share leaves out the clients without a link that are more than their cluster's share, and says so.
func (c *claims) share(p *plan, own []tsn.TSNLink) []spread.Finding {
	most := quota(c.service, p)
	linked := map[string]bool{}
	for i := range own {
		if own[i].Spec.Hop == 0 {
			linked[own[i].Spec.Client.UID] = true
		}
	}
	have, waiting := map[string]int{}, map[string]int{}
	for i := range c.all {
		if one := &c.all[i]; !one.offer && linked[one.UID] {
			have[one.cluster]++
		}
	}
	c.all = slices.DeleteFunc(c.all, func(one claim) bool {
		switch {
		case one.offer || linked[one.UID]:
			return false
		case have[one.cluster] < most:
			have[one.cluster]++
			return false
		}
		waiting[one.cluster]++
		return true
	})
	var found []spread.Finding
	for _, cluster := range p.selected {
		if waiting[cluster] > 0 {
			found = append(found, spread.Finding{Reason: reasonShareUsedUp, Text: fmt.Sprintf("%d more clients of cluster %s wait: %d of its clients are linked by the hub, "+
				"which is its share of the hub's part of %s; have endpoints in the cluster, or make another TSNService with a larger range",
				waiting[cluster], cluster, have[cluster], rangesIn(c.service))})
		}
	}
	return found
}
