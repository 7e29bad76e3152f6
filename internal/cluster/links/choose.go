// SPDX-License-Identifier: Apache-2.0

package links

import "github.com/kubernetsn/kubernetsn/api/v1alpha1"

// choose finds the best pod to which a link can lead, beside the one to which the present one leads.
func (r *pairing) choose(segment *path, have *v1alpha1.TSNLink) (*member, *path) {
	if segment.why = r.whyNotFrom(segment.from); segment.why.Reason != "" {
		return nil, nil
	}
	tried, failing := map[*member]bool{}, map[*member]bool{}
	var ready, full int
	for _, to := range r.stages[segment.hop] {
		switch until, known := r.out.Failed[Pair{segment.from.pod.UID, to.pod.UID}]; {
		case to.pod == segment.from.pod, have != nil && have.Spec.Endpoint.UID == to.pod.UID, !r.serves(to):
			tried[to] = true
		case r.hub[slot{to.pod.UID, segment.hop + 1}] != nil:
			tried[to] = true // its one link onward belongs to another chain
		case r.load[segment.hop][to.pod.UID] >= r.limit:
			tried[to] = true
			full++
		case known && r.in.Now.Before(until):
			tried[to], failing[to] = have != nil, true // without a link, it is better than none
		}
		if r.serves(to) {
			ready++
		}
	}
	for {
		to := r.best(segment, tried, failing)
		if to == nil {
			segment.why = r.whyNone(segment.hop, ready, full)
			return nil, nil
		}
		tried[to] = true
		if segment.hop == len(r.stages)-1 {
			return to, nil
		}
		if rest := r.path(to, segment.hop+1); rest.sound {
			return to, rest
		} else if segment.why.Reason == "" {
			segment.why = rest.why
		}
	}
}

// best is the pod to which a link should lead, of those that were not tried: one to which none has failed, then by the service's preference,
// then the one with the fewest links, then by the name.
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

// nearness is how much the service prefers a pod for where it is.
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
