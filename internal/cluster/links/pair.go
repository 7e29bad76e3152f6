// SPDX-License-Identifier: Apache-2.0

package links

import (
	"fmt"
	"maps"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// slot identifies a pod's link of a hop.
type slot struct {
	uid string
	hop int
}

// pairing pairs the pods of one service. It searches paths from the client, but creates links from the endpoint on: a link is created when
// all links onward from it are up. Onward links are shared by all links that lead to them.
type pairing struct {
	*planner
	*group
	key   Key
	limit int32
	// blocked is the reason why no new links are created, nil if they are.
	blocked *Finding
	// accepted is status.accepted.
	accepted []string
	// owned and hub are the existing links of the maker and of other makers, usually the federator.
	owned, hub map[slot]*v1alpha1.TSNLink
	// load counts the links to each pod by hop, and foreign those among them of other makers.
	load, foreign []map[string]int32
	// paths caches the results of path.
	paths map[slot]*path
	// clientPaths are the paths of the clients, in their order.
	clientPaths []*path
	// used are the links that stay or are new, by name.
	used map[string]*v1alpha1.TSNLink
	// waiting are the clients without a link.
	waiting []*member
}

// path is a pod's link of a hop and its state.
type path struct {
	from *member
	hop  int
	// link is nil if there is none.
	link *v1alpha1.TSNLink
	// pending is the pod to link to once its onward links are up, nil for none.
	pending *member
	// healthy is set if no fault is known from here to the endpoint, up if all links up to there are up.
	healthy, up bool
	// finding is the reason for a missing link.
	finding Finding
}

func newPairing(p *planner, g *group, links []*v1alpha1.TSNLink) *pairing {
	r := &pairing{planner: p, group: g, key: keyOf(g.service), limit: limitOf(g.service), owned: map[slot]*v1alpha1.TSNLink{},
		hub: map[slot]*v1alpha1.TSNLink{}, paths: map[slot]*path{}, used: map[string]*v1alpha1.TSNLink{}}
	for _, stage := range g.stages {
		load := map[string]int32{}
		for _, to := range stage {
			load[to.pod.UID] = to.pod.Links
		}
		r.load, r.foreign = append(r.load, load), append(r.foreign, maps.Clone(load))
	}
	for _, link := range links {
		at, hop := slot{link.Spec.Client.UID, int(link.Spec.Hop)}, int(link.Spec.Hop)
		if r.isOwned(link) {
			r.owned[at] = link
		} else {
			r.hub[at] = link
		}
		if hop < len(r.load) {
			r.load[hop][link.Spec.Endpoint.UID]++
			if !r.isOwned(link) {
				r.foreign[hop][link.Spec.Endpoint.UID]++
			}
		}
	}
	return r
}

// defaultLimit is the number of links per endpoint without spec.limits.
const defaultLimit = 1024

func limitOf(service *v1alpha1.TSNService) int32 {
	if limits := service.Spec.Limits; limits != nil && limits.LinksPerEndpoint > 0 {
		return limits.LinksPerEndpoint
	}
	return defaultLimit
}

// pair finds each client's path, and removes links that no path uses.
func (r *pairing) pair() {
	if r.blocked = r.conflict(); r.blocked != nil && r.blocked.Reason == v1alpha1.ReasonSelectorInvalid {
		return // the members are unknown: keep all links
	}
	for _, client := range r.clients {
		path := r.path(client, 0)
		r.clientPaths = append(r.clientPaths, path)
		if path.link == nil {
			r.waiting = append(r.waiting, client)
			r.podFindings.add(client.pod, path.finding.Reason, "%s", path.finding.Text)
		}
	}
	for _, path := range r.clientPaths {
		r.markUsed(path)
	}
	for at, link := range r.owned {
		if r.used[link.Name] != link {
			r.remove(link, r.removalReason(at, link))
		}
	}
	r.planRoutes()
}

// path returns the path of a pod from a hop on.
func (r *pairing) path(from *member, hop int) *path {
	at := slot{from.pod.UID, hop}
	if known := r.paths[at]; known != nil {
		return known
	}
	segment := &path{from: from, hop: hop}
	r.paths[at] = segment
	if other := r.hub[at]; other != nil && hop == 0 {
		segment.link, segment.up = other, isUp(other)
		if link := r.owned[at]; link == nil || !r.isHealthy(link, from, hop) {
			r.replaceHubLink(segment, other)
			return segment
		}
		segment.link = nil // there are two: keep the one within the cluster
	}
	r.chooseLink(segment, r.existingLink(at, from))
	return segment
}

// replaceHubLink creates a link within the cluster when the hub's link has been down so long that the hub must be unreachable too:
// otherwise it would have replaced the link. The hub deletes its link once it sees the new one.
func (r *pairing) replaceHubLink(segment *path, other *v1alpha1.TSNLink) {
	down, ok := downFor(other, r.in.Now)
	if !ok || r.maker != v1alpha1.MakerOperator || r.owned[slot{segment.from.pod.UID, segment.hop}] != nil {
		return
	}
	if down < HubLinkTimeout {
		r.requeueAfter(HubLinkTimeout - down)
		return
	}
	if to, onward := r.choose(segment, nil); to != nil && onward.isUp() {
		r.createLink(segment, to, nil)
	}
}

// existingLink returns a pod's link, nil if the pod at its other end does not offer the service any more.
func (r *pairing) existingLink(at slot, from *member) *v1alpha1.TSNLink {
	link := r.owned[at]
	switch {
	case link == nil || link.Spec.Client.Interface != from.clientInterface:
		return nil
	case r.find(at.hop, link.Spec.Endpoint.UID) == nil && r.pods[link.Spec.Endpoint.UID] != nil:
		return nil
	}
	return link
}

// chooseLink keeps the existing link, which may be nil, or chooses another one.
func (r *pairing) chooseLink(segment *path, existing *v1alpha1.TSNLink) {
	if existing != nil {
		segment.link = existing
		segment.healthy = r.isHealthy(existing, segment.from, segment.hop)
		segment.up = segment.healthy && isUp(existing) && r.onward(existing, segment.hop).isUp()
		if segment.healthy {
			return
		}
	}
	to, onward := r.choose(segment, existing)
	switch {
	case to == nil:
	case onward.isUp():
		r.createLink(segment, to, existing)
	default:
		segment.pending = to
		segment.finding = Finding{v1alpha1.ReasonChainWaited, fmt.Sprintf("the onward links of pod %s in the chain are not up yet", to.pod.FullName())}
		segment.healthy = existing == nil
	}
}

// isUp is true after the last hop, where the path is nil.
func (p *path) isUp() bool { return p == nil || p.up }

func (p *path) isHealthy() bool { return p == nil || p.healthy }

// onward returns the path from the endpoint of a link; nil after the last hop, or if the pod is gone.
func (r *pairing) onward(link *v1alpha1.TSNLink, hop int) *path {
	if hop == len(r.stages)-1 {
		return nil
	}
	if to := r.find(hop, link.Spec.Endpoint.UID); to != nil {
		return r.path(to, hop+1)
	}
	return nil
}

// isHealthy reports whether a link can stay without a search for another one.
func (r *pairing) isHealthy(link *v1alpha1.TSNLink, from *member, hop int) bool {
	to := r.find(hop, link.Spec.Endpoint.UID)
	if to == nil || !r.isEligible(to) || !r.onward(link, hop).isHealthy() {
		return false
	}
	down, ok := downFor(link, r.in.Now)
	if !ok {
		return true
	}
	if down < LinkTimeout {
		r.requeueAfter(LinkTimeout - down)
		return true
	}
	if node, known := r.in.Nodes[from.pod.Node]; known && !node.Ready {
		return true // its agent could not plug another link
	}
	r.out.Failed[Pair{from.pod.UID, to.pod.UID}] = r.in.Now.Add(RetryFailedAfter)
	return false
}

// isEligible reports whether links can lead to a pod.
func (r *pairing) isEligible(to *member) bool {
	node, known := r.in.Nodes[to.pod.Node]
	return to.pod.Ready && !to.pod.Deleting && known && node.Ready && node.Unfit == ""
}

// markUsed marks the links of a path as used.
func (r *pairing) markUsed(p *path) {
	if p.link != nil {
		if r.used[p.link.Name] == p.link {
			return
		}
		r.used[p.link.Name] = p.link
		if onward := r.onward(p.link, p.hop); onward != nil && r.isOwned(p.link) {
			r.markUsed(onward)
		}
	}
	if p.pending != nil && p.hop < len(r.stages)-1 {
		r.markUsed(r.path(p.pending, p.hop+1))
	}
}

// createLink creates a link that replaces the existing one, if any.
func (r *pairing) createLink(segment *path, to *member, existing *v1alpha1.TSNLink) {
	if existing != nil {
		r.pool.release(existing)
	}
	link, problem := r.newLink(segment.from, to, segment.hop)
	if problem != nil {
		segment.finding = *problem
		switch {
		case existing == nil:
		case problem.Reason == v1alpha1.ReasonRangeUsedUp && r.find(segment.hop, existing.Spec.Endpoint.UID) == nil:
			// The existing link leads nowhere. Delete it, so that the next plan can use its VNI and addresses.
			segment.link = nil
			r.replaceLink(segment, existing, "the next link gets its number and addresses when they are free")
		default:
			r.pool.reserve(existing)
		}
		return
	}
	if existing != nil {
		r.replaceLink(segment, existing, fmt.Sprintf("pod %s takes its place", to.pod.FullName()))
	}
	r.load[segment.hop][to.pod.UID]++
	r.pool.reserve(link)
	segment.link, segment.healthy, segment.up = link, true, false
}

// replaceLink plans the removal of a path's link. consequence ends the message.
func (r *pairing) replaceLink(segment *path, existing *v1alpha1.TSNLink, consequence string) {
	endpoint := &existing.Spec.Endpoint
	r.load[segment.hop][endpoint.UID]--
	r.out.Delete = append(r.out.Delete, Removal{existing, fmt.Sprintf("pod %s/%s is %s; %s", endpoint.Namespace, endpoint.Pod, r.linkFault(existing, segment.hop), consequence)})
	delete(r.owned, slot{segment.from.pod.UID, segment.hop})
}

// choose returns the best pod to link to, other than the endpoint of the existing link, with its onward path.
func (r *pairing) choose(segment *path, existing *v1alpha1.TSNLink) (*member, *path) {
	if segment.finding = r.clientFinding(segment.from); segment.finding.Reason != "" {
		return nil, nil
	}
	tried, failing := map[*member]bool{}, map[*member]bool{}
	var ready, full int
	for _, to := range r.stages[segment.hop] {
		switch until, known := r.out.Failed[Pair{segment.from.pod.UID, to.pod.UID}]; {
		case to.pod == segment.from.pod, existing != nil && existing.Spec.Endpoint.UID == to.pod.UID, !r.isEligible(to):
			tried[to] = true
		case r.hub[slot{to.pod.UID, segment.hop + 1}] != nil:
			tried[to] = true // its onward link belongs to another chain
		case r.load[segment.hop][to.pod.UID] >= r.limit:
			tried[to] = true
			full++
		case known && r.in.Now.Before(until):
			tried[to], failing[to] = existing != nil, true // better than no link
		}
		if r.isEligible(to) {
			ready++
		}
	}
	for {
		to := r.best(segment, tried, failing)
		if to == nil {
			segment.finding = r.noTargetFinding(segment.hop, ready, full)
			return nil, nil
		}
		tried[to] = true
		if segment.hop == len(r.stages)-1 {
			return to, nil
		}
		if onward := r.path(to, segment.hop+1); onward.healthy {
			return to, onward
		} else if segment.finding.Reason == "" {
			segment.finding = onward.finding
		}
	}
}

// best returns the best untried pod: pairs without a failure first, then by the service's preference, the number of links and the name.
func (r *pairing) best(segment *path, tried, failing map[*member]bool) *member {
	var best *member
	for _, to := range r.stages[segment.hop] {
		if tried[to] {
			continue
		}
		if best == nil {
			best = to
			continue
		}
		if failing[to] != failing[best] {
			if failing[best] {
				best = to
			}
			continue
		}
		near, nearBest := r.nearness(segment.from.pod, to.pod), r.nearness(segment.from.pod, best.pod)
		if near > nearBest || near == nearBest && r.load[segment.hop][to.pod.UID] < r.load[segment.hop][best.pod.UID] {
			best = to
		}
	}
	return best
}

// nearness returns how much the service prefers a pod by its location; larger is better.
func (r *pairing) nearness(from, to *Pod) int {
	prefer := r.service.Spec.Prefer
	switch {
	case prefer == v1alpha1.PreferAny || from.Cluster != to.Cluster:
		return 0
	case prefer != v1alpha1.PreferSameCluster && from.Node == to.Node:
		return 2
	}
	return 1
}
