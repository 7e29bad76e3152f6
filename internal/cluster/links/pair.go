// SPDX-License-Identifier: Apache-2.0

package links

import (
	"fmt"
	"maps"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// slot is a pod's for a link of a hop.
type slot struct {
	uid string
	hop int
}

// pairing links the pods of one service. Ways are found from the client on, and links made from the endpoint on: a link is made when all that is
// behind it is up, and links behind are shared by all that lead to them.
type pairing struct {
	*planner
	*group
	key   Key
	limit int32
	// blocked is why there are no new links, nil: there are.
	blocked *Finding
	// accepted is status.accepted.
	accepted []string
	// own and hub are the links that there are, of the maker and, mostly, of the federator.
	own, hub map[slot]*v1alpha1.TSNLink
	// load counts the links of each hop that lead to a pod, and foreign those among them that the maker did not make.
	load, foreign []map[string]int32
	// paths are those from pods in the middle.
	paths map[slot]*path
	// clientPaths are those of the clients, in their order.
	clientPaths []*path
	// used are the links that stay, or are new, by their names.
	used map[string]*v1alpha1.TSNLink
	// waiting are clients without a link.
	waiting []*member
}

// path is what a pod has for a hop.
type path struct {
	from *member
	hop  int
	// link is nil while there is none.
	link *v1alpha1.TSNLink
	// next is the pod to which another link is to lead once the one behind is up, nil: none.
	next *member
	// sound tells whether nothing is known to be wrong from here to the endpoint, up whether all links there are up.
	sound, up bool
	// why says what is missing.
	why Finding
}

func newPairing(p *planner, g *group, links []*v1alpha1.TSNLink) *pairing {
	r := &pairing{planner: p, group: g, key: keyOf(g.service), limit: limitOf(g.service), own: map[slot]*v1alpha1.TSNLink{},
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
		if r.isOwn(link) {
			r.own[at] = link
		} else {
			r.hub[at] = link
		}
		if hop < len(r.load) {
			r.load[hop][link.Spec.Endpoint.UID]++
			if !r.isOwn(link) {
				r.foreign[hop][link.Spec.Endpoint.UID]++
			}
		}
	}
	return r
}

// defaultLimit is that of a service without spec.limits.
const defaultLimit = 1024

func limitOf(service *v1alpha1.TSNService) int32 {
	if limits := service.Spec.Limits; limits != nil && limits.LinksPerEndpoint > 0 {
		return limits.LinksPerEndpoint
	}
	return defaultLimit
}

// pair finds each client's path, and removes what leads nowhere.
func (r *pairing) pair() {
	if r.blocked = r.conflict(); r.blocked != nil && r.blocked.Reason == v1alpha1.ReasonSelectorInvalid {
		return // nobody knows which pods are meant, and links stay as they are
	}
	for _, client := range r.clients {
		path := r.path(client, 0)
		r.clientPaths = append(r.clientPaths, path)
		if path.link == nil {
			r.waiting = append(r.waiting, client)
			r.tell.add(client.pod, path.why.Reason, "%s", path.why.Text)
		}
	}
	for _, path := range r.clientPaths {
		r.use(path)
	}
	for at, link := range r.own {
		if r.used[link.Name] != link {
			r.remove(link, r.whyNot(at, link))
		}
	}
	r.route()
}

// path finds that of a pod from a hop on. Those of pods in the middle are found once.
func (r *pairing) path(from *member, hop int) *path {
	at := slot{from.pod.UID, hop}
	if known := r.paths[at]; known != nil {
		return known
	}
	segment := &path{from: from, hop: hop}
	r.paths[at] = segment
	if other := r.hub[at]; other != nil && hop == 0 {
		segment.link, segment.up = other, isUp(other)
		if link := r.own[at]; link == nil || !r.isSound(link, from, hop) {
			r.relieve(segment, other)
			return segment
		}
		segment.link = nil // there are two, and the one within the cluster stays
	}
	r.decide(segment, r.valid(at, from))
	return segment
}

// relieve gives a client an endpoint of its own cluster when the hub's link has been down so long that the hub must be away as well: it would
// have made another. The hub takes its link away once it hears of this one.
func (r *pairing) relieve(segment *path, other *v1alpha1.TSNLink) {
	down, ok := downFor(other, r.in.Now)
	if !ok || r.maker != v1alpha1.MakerOperator || r.own[slot{segment.from.pod.UID, segment.hop}] != nil {
		return
	}
	if down < HubPatience {
		r.again(HubPatience - down)
		return
	}
	if to, rest := r.choose(segment, nil); to != nil && rest.isUp() {
		r.link(segment, to, nil)
	}
}

// valid is the link that a pod has, unless the pod at its other end does not offer the service any more.
func (r *pairing) valid(at slot, from *member) *v1alpha1.TSNLink {
	link := r.own[at]
	switch {
	case link == nil || link.Spec.Client.Interface != from.wants:
		return nil
	case r.find(at.hop, link.Spec.Endpoint.UID) == nil && r.pods[link.Spec.Endpoint.UID] != nil:
		return nil
	}
	return link
}

// decide chooses between the link that there is, which may be nil, and others.
func (r *pairing) decide(segment *path, have *v1alpha1.TSNLink) {
	if have != nil {
		segment.link = have
		segment.sound = r.isSound(have, segment.from, segment.hop)
		segment.up = segment.sound && isUp(have) && r.behind(have, segment.hop).isUp()
		if segment.sound {
			return
		}
	}
	to, rest := r.choose(segment, have)
	switch {
	case to == nil:
	case rest.isUp():
		r.link(segment, to, have)
	default:
		segment.next = to
		segment.why = Finding{v1alpha1.ReasonChainWaited, fmt.Sprintf("the links of the chain behind pod %s are not up yet", to.pod.Full())}
		segment.sound = have == nil
	}
}

// isUp of what is behind the last hop, which is nothing, is true.
func (w *path) isUp() bool { return w == nil || w.up }

func (w *path) isSound() bool { return w == nil || w.sound }

// behind is the path from the pod to which a link leads; nil behind the last hop, or where the pod is gone.
func (r *pairing) behind(link *v1alpha1.TSNLink, hop int) *path {
	if hop == len(r.stages)-1 {
		return nil
	}
	if to := r.find(hop, link.Spec.Endpoint.UID); to != nil {
		return r.path(to, hop+1)
	}
	return nil
}

// isSound tells whether a link may stay without a look for another.
func (r *pairing) isSound(link *v1alpha1.TSNLink, from *member, hop int) bool {
	to := r.find(hop, link.Spec.Endpoint.UID)
	if to == nil || !r.serves(to) || !r.behind(link, hop).isSound() {
		return false
	}
	down, ok := downFor(link, r.in.Now)
	if !ok {
		return true
	}
	if down < Patience {
		r.again(Patience - down)
		return true
	}
	if node, known := r.in.Nodes[from.pod.Node]; known && !node.Ready {
		return true // nobody there would plug another
	}
	r.out.Failed[Pair{from.pod.UID, to.pod.UID}] = r.in.Now.Add(FailureCounts)
	return false
}

// serves tells whether links may be made to a pod.
func (r *pairing) serves(to *member) bool {
	node, known := r.in.Nodes[to.pod.Node]
	return to.pod.Ready && !to.pod.Going && known && node.Ready && node.Unfit == ""
}

// use marks the links that are needed.
func (r *pairing) use(w *path) {
	if w.link != nil {
		if r.used[w.link.Name] == w.link {
			return
		}
		r.used[w.link.Name] = w.link
		if rest := r.behind(w.link, w.hop); rest != nil && r.isOwn(w.link) {
			r.use(rest)
		}
	}
	if w.next != nil && w.hop < len(r.stages)-1 {
		r.use(r.path(w.next, w.hop+1))
	}
}

// link makes a new link in the place of the one that there is.
func (r *pairing) link(segment *path, to *member, have *v1alpha1.TSNLink) {
	if have != nil {
		r.pool.free(have)
	}
	link, problem := r.newLink(segment.from, to, segment.hop)
	if problem != nil {
		segment.why = *problem
		switch {
		case have == nil:
		case problem.Reason == v1alpha1.ReasonRangeUsedUp && r.find(segment.hop, have.Spec.Endpoint.UID) == nil:
			// It leads nowhere, and the next one finds room in what it leaves.
			segment.link = nil
			r.replace(segment, have, "the next link has its place when that is free")
		default:
			r.pool.take(have)
		}
		return
	}
	if have != nil {
		r.replace(segment, have, fmt.Sprintf("pod %s takes its place", to.pod.Full()))
	}
	r.load[segment.hop][to.pod.UID]++
	r.pool.take(link)
	segment.link, segment.sound, segment.up = link, true, false
}

// replace has the link of a path removed. then is what comes next.
func (r *pairing) replace(segment *path, have *v1alpha1.TSNLink, then string) {
	endpoint := &have.Spec.Endpoint
	r.load[segment.hop][endpoint.UID]--
	r.out.Delete = append(r.out.Delete, Removal{have, fmt.Sprintf("pod %s/%s is %s; %s", endpoint.Namespace, endpoint.Pod, r.fault(have, segment.hop), then)})
	delete(r.own, slot{segment.from.pod.UID, segment.hop})
}
