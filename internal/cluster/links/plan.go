// SPDX-License-Identifier: Apache-2.0

package links

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

const (
	// LinkTimeout is how long a link may be down, with its client plugged, before another endpoint is tried.
	LinkTimeout = 10 * time.Second
	// HubLinkTimeout is how long a hub's link of a client may be down before it is replaced within the cluster.
	HubLinkTimeout = 3 * LinkTimeout
	// RetryFailedAfter is how long a failed pair is avoided while there are others.
	RetryFailedAfter = 5 * time.Minute
)

// planner makes one plan.
type planner struct {
	in          *Input
	out         *Result
	pool        *pool
	podFindings podFindings
	pods        map[string]*Pod // by UID
	ranges      *rangeIndex
	// maker is the maker whose links are planned.
	maker string
}

// Plan plans the links of all services.
func Plan(in *Input) *Result {
	p := &planner{in: in, pool: newPool(in), podFindings: podFindings{}, pods: map[string]*Pod{}, ranges: newRangeIndex(in.Services, in.Networks),
		maker: cmp.Or(in.Maker, v1alpha1.MakerOperator)}
	for i := range in.Pods {
		p.pods[in.Pods[i].UID] = &in.Pods[i]
	}
	p.out = &Result{Services: map[Key]*ServicePlan{}, Pods: p.podFindings, Failed: maps.Clone(in.Failed)}
	maps.DeleteFunc(p.out.Failed, func(_ Pair, until time.Time) bool { return !in.Now.Before(until) })
	if p.out.Failed == nil {
		p.out.Failed = Failures{}
	}
	groups := groupsOf(in, p.podFindings)
	byService := linksByService(in.Links)
	waiting := map[Key][]*member{}
	for _, service := range p.ranges.services {
		key := keyOf(service)
		if service.DeletionTimestamp != nil {
			continue
		}
		run := newPairing(p, groups[key], byService[key])
		run.pair()
		waiting[key] = run.waiting
		p.out.Services[key] = run.servicePlan()
	}
	for key, links := range byService {
		if p.out.Services[key] == nil {
			for _, link := range links {
				p.remove(link, fmt.Sprintf("TSNService %s is gone", key))
			}
		}
	}
	p.findLoops(groups, waiting)
	p.admit(groups)
	slices.SortFunc(p.out.Delete, func(a, b Removal) int { return compareLinks(a.Link, b.Link) }) // whatever the order of maps
	return p.out
}

// remove plans the removal of a link, if the maker owns it.
func (p *planner) remove(link *v1alpha1.TSNLink, why string) {
	if p.isOwned(link) {
		p.pool.release(link)
		p.out.Delete = append(p.out.Delete, Removal{link, why})
	}
}

// requeueAfter requests another plan after a delay; the shortest delay counts.
func (p *planner) requeueAfter(after time.Duration) {
	if after > 0 && (p.out.RequeueAfter == 0 || after < p.out.RequeueAfter) {
		p.out.RequeueAfter = after
	}
}

// isOwned reports whether the maker has created a link, and may delete it.
func (p *planner) isOwned(link *v1alpha1.TSNLink) bool {
	return link.Labels[v1alpha1.LinkMakerLabel] == p.maker
}

// linksByService returns the links of each service, sorted by hop and name.
func linksByService(all []v1alpha1.TSNLink) map[Key][]*v1alpha1.TSNLink {
	byService := map[Key][]*v1alpha1.TSNLink{}
	for i := range all {
		key := Key{Namespace: all[i].Namespace, Name: all[i].Spec.Service}
		byService[key] = append(byService[key], &all[i])
	}
	for _, links := range byService {
		slices.SortFunc(links, compareLinks)
	}
	return byService
}

// isUp reports whether the ends of a link reach each other.
func isUp(link *v1alpha1.TSNLink) bool {
	return meta.IsStatusConditionTrue(link.Status.Conditions, v1alpha1.ConditionUp)
}

// downFor returns how long a link has been down since its client was plugged; false if it is not down, or its client is not plugged yet.
func downFor(link *v1alpha1.TSNLink, now time.Time) (time.Duration, bool) {
	up := meta.FindStatusCondition(link.Status.Conditions, v1alpha1.ConditionUp)
	plugged := meta.FindStatusCondition(link.Status.Conditions, v1alpha1.ConditionClientPlugged)
	if up == nil || up.Status != metav1.ConditionFalse || plugged == nil || plugged.Status != metav1.ConditionTrue {
		return 0, false
	}
	since := up.LastTransitionTime.Time
	if plugged.LastTransitionTime.After(since) {
		since = plugged.LastTransitionTime.Time
	}
	return now.Sub(since), true
}

// findLoops adds findings to services whose clients wait, directly or indirectly, for a link of the same service: a client's containers
// start when its link is up, and a pod becomes an endpoint when it is ready.
func (p *planner) findLoops(groups map[Key]*group, waiting map[Key][]*member) {
	waitsFor := map[string]map[Key]bool{} // services that pods wait for, by the pods' UIDs
	for key, clients := range waiting {
		for _, client := range clients {
			if waitsFor[client.pod.UID] == nil {
				waitsFor[client.pod.UID] = map[Key]bool{}
			}
			waitsFor[client.pod.UID][key] = true
		}
	}
	next := func(key Key) []Key {
		keys := map[string]Key{}
		if len(waiting[key]) == 0 || groups[key] == nil {
			return nil
		}
		for _, stage := range groups[key].stages {
			for _, member := range stage {
				for service := range waitsFor[member.pod.UID] {
					keys[service.String()] = service
				}
			}
		}
		var all []Key
		for _, name := range sortedKeys(keys) {
			all = append(all, keys[name])
		}
		return all
	}
	for key := range waiting {
		if cycle := findCycle(key, key, next, map[Key]bool{}); cycle != nil && p.out.Services[key] != nil {
			var names []string
			for _, key := range cycle {
				names = append(names, key.String())
			}
			plan := p.out.Services[key]
			plan.Findings = slices.Insert(plan.Findings, 0, Finding{v1alpha1.ReasonChainLoop, fmt.Sprintf("services wait for each other: %s; each has clients that start when they have a link, "+
				"and endpoints that are clients of the next. Remove a label client.kubernetsn.io/ from the pods of one service", strings.Join(names, " -> "))})
		}
	}
}

// findCycle returns a path from a service to another one, nil for none.
func findCycle(from, to Key, next func(Key) []Key, seen map[Key]bool) []Key {
	for _, key := range next(from) {
		if key == to {
			return []Key{from, to}
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		if rest := findCycle(key, to, next, seen); rest != nil {
			return append([]Key{from}, rest...)
		}
	}
	return nil
}
