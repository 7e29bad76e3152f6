// SPDX-License-Identifier: Apache-2.0

package links

import "github.com/kubernetsn/kubernetsn/api/v1alpha1"

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
