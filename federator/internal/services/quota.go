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

const (
	// reasonShareUsedUp : a cluster has as many clients linked by the hub as its share of the hub's part allows, which depends on what others ask for.
	reasonShareUsedUp = "ShareUsedUp"
	// quotaAtMost bounds a cluster's share where the part is large: all services' links have numbers of one part.
	quotaAtMost = 4096
)

// room is how many clients the hub can link: what its part has addresses and numbers for.
func room(service *tsn.TSNService, p *plan) int {
	most := int(p.hub.vnis.Last-p.hub.vnis.First) + 1
	for _, text := range []string{p.hub.ipv4, p.hub.ipv6} {
		part, err := netip.ParsePrefix(text)
		if err != nil {
			continue // without this family
		}
		pairs := 1 << min(part.Addr().BitLen()-1-part.Bits(), 16)
		if part.Addr().Is6() {
			pairs-- // the first address is that of the subnet's routers
		}
		most = min(most, pairs)
	}
	return most / (1 + len(service.Spec.Chain))
}

// asking are the clients that have a place in the hub's part, by UID, and by clusters how many have one, and how many want one.
type asking struct {
	placed        map[string]bool
	have, waiting map[string]int
	// all have a place.
	all int
}

func (a *asking) place(one *claim) {
	a.placed[one.UID] = true
	a.have[one.cluster]++
	a.all++
}

// ask looks which clients have a place: those that have a link, and those whose link has gone a moment ago, or goes, as where another endpoint or another
// pod of the name takes its place. A place is one client's.
func (c *claims) ask(own []tsn.TSNLink, released map[string]bool, most int) *asking {
	a := &asking{placed: map[string]bool{}, have: map[string]int{}, waiting: map[string]int{}}
	linked := map[string]bool{}
	for i := range own {
		if own[i].Spec.Hop == 0 {
			linked[own[i].Spec.Client.UID] = true
		}
	}
	for i := range c.all {
		if one := &c.all[i]; !one.offer && linked[one.UID] {
			a.place(one)
		}
	}
	places := c.places(own, released, a)
	for i := range c.all {
		one := &c.all[i]
		if one.offer || linked[one.UID] {
			continue
		}
		name := c.nameOf(one)
		if !places[name] || a.all >= most {
			a.waiting[one.cluster]++
			continue
		}
		delete(places, name)
		a.place(one)
	}
	return a
}

func (c *claims) nameOf(one *claim) string {
	return linkledger.ClientOf(c.service.Namespace, c.service.Name, one.cluster, one.Namespace, one.Pod)
}

// places are those of clients whose links have gone or go, and that have no other one.
func (c *claims) places(own []tsn.TSNLink, released map[string]bool, a *asking) map[string]bool {
	places := map[string]bool{}
	maps.Copy(places, released)
	for i := range c.all {
		if one := &c.all[i]; !one.offer && a.placed[one.UID] {
			delete(places, c.nameOf(one))
		}
	}
	for i := range own {
		if own[i].Spec.Hop == 0 && !a.placed[own[i].Spec.Client.UID] {
			places[linkledger.ClientOfLink(&own[i])] = true
		}
	}
	return places
}

// share leaves out the clients for which there is no room, and says so. The room is divided by what the clusters ask for, so that one that names clients
// that there are not takes nothing from those that ask as well.
func (c *claims) share(p *plan, own []tsn.TSNLink, released map[string]bool) []spread.Finding {
	most := room(c.service, p)
	a := c.ask(own, released, most)
	asks := make([]ask, len(p.selected))
	for i, cluster := range p.selected {
		have := a.have[cluster]
		asks[i] = ask{has: have, wants: max(have, min(have+a.waiting[cluster], quotaAtMost))}
	}
	left := map[string]int{}
	for i, given := range fairly(most, asks) {
		left[p.selected[i]] = given - asks[i].has
	}
	waiting := map[string]int{}
	c.all = slices.DeleteFunc(c.all, func(one claim) bool {
		switch {
		case one.offer || a.placed[one.UID]:
			return false
		case left[one.cluster] > 0:
			left[one.cluster]--
			a.have[one.cluster]++
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
				waiting[cluster], cluster, a.have[cluster], rangesIn(c.service))})
		}
	}
	return found
}
