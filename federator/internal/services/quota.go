// SPDX-License-Identifier: Apache-2.0

package services

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/cluster/linkledger"
)

// Reasons of conditions that only a hub sets.
const (
	// reasonShareUsedUp : the hub has linked as many clients of a cluster as the cluster's share of the hub's addresses
	// allows. The share depends on the requests of the other clusters.
	reasonShareUsedUp = "ShareUsedUp"
)

// maxQuota limits a cluster's share of a large part, because the links of all services use numbers of one part.
const maxQuota = 4096

// room returns how many clients the hub can link with the addresses and numbers of its part.
func room(service *tsn.TSNService, p *plan) int {
	most := int(p.hub.vnis.Last-p.hub.vnis.First) + 1
	for _, text := range []string{p.hub.ipv4, p.hub.ipv6} {
		part, err := netip.ParsePrefix(text)
		if err != nil {
			continue // the service does not have this family
		}
		pairs := 1 << min(part.Addr().BitLen()-1-part.Bits(), 16)
		if part.Addr().Is6() {
			pairs-- // the first address is the subnet's router
		}
		most = min(most, pairs)
	}
	return most / (1 + len(service.Spec.Chain))
}

// asking has the clients with a place in the hub's part, by UID, and by cluster the numbers of clients that have a
// place and that want one.
type asking struct {
	placed        map[string]bool
	have, waiting map[string]int
	// all is the number of clients with a place.
	all int
}

func (a *asking) place(entry *claim) {
	a.placed[entry.UID] = true
	a.have[entry.cluster]++
	a.all++
}

// ask returns the clients that have a place: clients with a link, and clients whose link was just deleted or is being
// deleted, for example because another endpoint, or another pod with the same name, replaces it. A place belongs to one
// client.
func (c *claims) ask(links []tsn.TSNLink, released map[string]bool, most int) *asking {
	a := &asking{placed: map[string]bool{}, have: map[string]int{}, waiting: map[string]int{}}
	linked := map[string]bool{}
	for i := range links {
		if links[i].Spec.Hop == 0 {
			linked[links[i].Spec.Client.UID] = true
		}
	}
	for i := range c.all {
		if claim := &c.all[i]; !claim.offer && linked[claim.UID] {
			a.place(claim)
		}
	}
	places := c.places(links, released, a)
	for i := range c.all {
		claim := &c.all[i]
		if claim.offer || linked[claim.UID] {
			continue
		}
		name := c.nameOf(claim)
		if !places[name] || a.all >= most {
			a.waiting[claim.cluster]++
			continue
		}
		delete(places, name)
		a.place(claim)
	}
	return a
}

func (c *claims) nameOf(entry *claim) string {
	return linkledger.ClientOf(c.service.Namespace, c.service.Name, entry.cluster, entry.Namespace, entry.Pod)
}

// places returns the places of clients whose links were or are being deleted, and that have no other link.
func (c *claims) places(links []tsn.TSNLink, released map[string]bool, a *asking) map[string]bool {
	places := map[string]bool{}
	maps.Copy(places, released)
	for i := range c.all {
		if claim := &c.all[i]; !claim.offer && a.placed[claim.UID] {
			delete(places, c.nameOf(claim))
		}
	}
	for i := range links {
		if links[i].Spec.Hop == 0 && !a.placed[links[i].Spec.Client.UID] {
			places[linkledger.ClientOfLink(&links[i])] = true
		}
	}
	return places
}

// share drops the clients for which there is no room, and returns findings about them. The room is divided by what
// clusters ask for, so that a cluster that reports clients that do not exist takes nothing from clusters that ask as
// well.
func (c *claims) share(p *plan, links []tsn.TSNLink, released map[string]bool) []spread.Finding {
	most := room(c.service, p)
	a := c.ask(links, released, most)
	asks := make([]ask, len(p.selected))
	for i, cluster := range p.selected {
		have := a.have[cluster]
		asks[i] = ask{has: have, wants: max(have, min(have+a.waiting[cluster], maxQuota))}
	}
	left := map[string]int{}
	for i, given := range fairly(most, asks) {
		left[p.selected[i]] = given - asks[i].has
	}
	waiting := map[string]int{}
	c.all = slices.DeleteFunc(c.all, func(entry claim) bool {
		switch {
		case entry.offer || a.placed[entry.UID]:
			return false
		case left[entry.cluster] > 0:
			left[entry.cluster]--
			a.have[entry.cluster]++
			return false
		}
		waiting[entry.cluster]++
		return true
	})
	var findings []spread.Finding
	for _, cluster := range p.selected {
		if waiting[cluster] > 0 {
			findings = append(findings, spread.Finding{Reason: reasonShareUsedUp, Text: fmt.Sprintf("%d more clients of cluster %s wait: %d of its clients are linked by the hub, "+
				"which is its share of the hub's part of %s; have endpoints in the cluster, or make another TSNService with a larger range",
				waiting[cluster], cluster, a.have[cluster], rangesIn(c.service))})
		}
	}
	return findings
}
