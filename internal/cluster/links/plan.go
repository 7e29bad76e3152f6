// SPDX-License-Identifier: Apache-2.0

package links

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

const (
	// Patience is for how long a link may be down, with its client plugged, before another endpoint is tried.
	Patience = 10 * time.Second
	// HubPatience is for how long the hub's link of a client may be down before an endpoint of its own cluster takes it.
	HubPatience = 3 * Patience
	// FailureCounts is for how long a pod is not tried again after that, while there are others.
	FailureCounts = 5 * time.Minute
)

// planner makes one plan.
type planner struct {
	in   *Input
	out  *Result
	pool *pool
	tell said
	pods map[string]*Pod // by UID
	aged *aged
	// maker is whose links are planned.
	maker string
}

// Plan decides.
func Plan(in *Input) *Result {
	p := &planner{in: in, pool: newPool(in), tell: said{}, pods: map[string]*Pod{}, aged: newAged(in.Services, in.Networks),
		maker: cmp.Or(in.Maker, v1alpha1.MakerOperator)}
	for i := range in.Pods {
		p.pods[in.Pods[i].UID] = &in.Pods[i]
	}
	p.out = &Result{Services: map[Key]*ServicePlan{}, Pods: p.tell, Failed: maps.Clone(in.Failed)}
	maps.DeleteFunc(p.out.Failed, func(_ Pair, until time.Time) bool { return !in.Now.Before(until) })
	if p.out.Failed == nil {
		p.out.Failed = Failures{}
	}
	groups := groupsOf(in, p.tell)
	owner := linksByService(in.Links)
	waits := map[Key][]*member{}
	for _, service := range p.aged.services {
		key := keyOf(service)
		if service.DeletionTimestamp != nil {
			continue
		}
		run := newPairing(p, groups[key], owner[key])
		run.pair()
		waits[key] = run.waiting
		p.out.Services[key] = run.say()
	}
	for key, links := range owner {
		if p.out.Services[key] == nil {
			for _, link := range links {
				p.remove(link, fmt.Sprintf("TSNService %s is gone", key))
			}
		}
	}
	p.findLoops(groups, waits)
	p.admit(groups)
	p.sort()
	return p.out
}

// remove has a link of the maker's removed.
func (p *planner) remove(link *v1alpha1.TSNLink, why string) {
	if p.isOwn(link) {
		p.pool.free(link)
		p.out.Delete = append(p.out.Delete, Removal{link, why})
	}
}

// again has a plan be made after a while.
func (p *planner) again(after time.Duration) {
	if after > 0 && (p.out.Again == 0 || after < p.out.Again) {
		p.out.Again = after
	}
}

// sort puts links into an order that does not depend on that of a map.
func (p *planner) sort() {
	slices.SortFunc(p.out.Delete, func(a, b Removal) int { return compareLinks(a.Link, b.Link) })
}

// change has a link be as it should, unless it is.
func (p *planner) change(have, want *v1alpha1.TSNLink) {
	if !equality.Semantic.DeepEqual(have.Spec, want.Spec) {
		p.out.Change = append(p.out.Change, *want)
	}
}

// isOwn tells whether the maker made a link, and may remove it.
func (p *planner) isOwn(link *v1alpha1.TSNLink) bool {
	return link.Labels[v1alpha1.LinkMakerLabel] == p.maker
}

// linksByService are the links of each service, in the order of their hops and names.
func linksByService(all []v1alpha1.TSNLink) map[Key][]*v1alpha1.TSNLink {
	owner := map[Key][]*v1alpha1.TSNLink{}
	for i := range all {
		key := Key{all[i].Namespace, all[i].Spec.Service}
		owner[key] = append(owner[key], &all[i])
	}
	for _, links := range owner {
		slices.SortFunc(links, compareLinks)
	}
	return owner
}

// isUp tells whether the ends of a link were seen to reach each other.
func isUp(link *v1alpha1.TSNLink) bool {
	return meta.IsStatusConditionTrue(link.Status.Conditions, v1alpha1.ConditionUp)
}

// downFor is for how long a link has been down though its client has its interface. A client that has just begun is no fault of its endpoint.
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
