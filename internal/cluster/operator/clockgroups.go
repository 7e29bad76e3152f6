// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// differPatience is for how long nodes may follow different clocks until it is said: when another grandmaster takes over they turn to
// it one after another, and their reports come as late as a large cluster spreads them.
const differPatience = 5 * time.Second

// clockGroups are nodes by what they have in common.
type clockGroups map[string][]string

// texts are one for each group, the largest first, each with its nodes.
func (g clockGroups) texts(name, several string) []string {
	keys := slices.SortedFunc(maps.Keys(g), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(g[b]), len(g[a])), strings.Compare(a, b))
	})
	var texts []string
	for _, key := range keys {
		slices.Sort(g[key])
		who, does := "node ", name
		if len(g[key]) > 1 {
			who, does = "nodes ", several
		}
		texts = append(texts, who+strings.Join(some(g[key]), ", ")+" "+does+" "+key)
	}
	return texts
}

// differing says of nodes, each of which has a good clock by what it follows, why these clocks may be further apart than that; "" if
// they may not.
func differing(good map[string]*v1alpha1.NodeClock) string {
	followed, offsets := clockGroups{}, clockGroups{}
	for node, clock := range good {
		if clock == nil {
			continue
		}
		if what := tsnnetwork.FollowedBy(clock); what != "" {
			followed[what] = append(followed[what], node)
		}
		if clock.TAIOffset != nil {
			key := fmt.Sprintf("%d s", *clock.TAIOffset)
			offsets[key] = append(offsets[key], node)
		}
	}
	var existing []string
	if len(followed) > 1 {
		existing = append(existing, "nobody knows how far these clocks are apart: "+strings.Join(some(followed.texts("follows", "follow")), ", but ")+
			"; have all nodes follow one")
	}
	if len(offsets) > 1 {
		existing = append(existing, "the nodes' CLOCK_TAI are whole seconds apart, because their kernels have different offsets TAI - UTC: "+
			strings.Join(some(offsets.texts("has", "have")), ", but ")+"; have who keeps the clock set it, such as chronyd by leapsectz")
	}
	return tsnnetwork.Shorten(strings.Join(existing, "; "), mostOfMessage)
}

// differ says how the clocks of a network's nodes with pods differ, once they have for a while; again is when to look again until then.
func (r *Networks) differ(network *v1alpha1.TSNNetwork, reports []report) (text string, again time.Duration) {
	if network.Spec.Clock != nil {
		text = differing(goodClocks(reports))
	}
	if text == "" {
		delete(r.differSince, network.Name)
		return "", 0
	}
	now := r.shared.agents.now()
	since, known := r.differSince[network.Name]
	if !known {
		since = now
		if clockOf(network.Status.Conditions).Reason == v1alpha1.ReasonClocksDiffer { // as an operator before this one has said
			since = now.Add(-differPatience)
		}
		r.differSince[network.Name] = since
	}
	if left := differPatience - now.Sub(since); left > 0 {
		return "", left
	}
	return text, 0
}

// goodClocks are those of the nodes that say theirs are good enough.
func goodClocks(reports []report) map[string]*v1alpha1.NodeClock {
	good := map[string]*v1alpha1.NodeClock{}
	for i := range reports {
		condition := clockOf(reports[i].conditions)
		if believed := beliefOf(&condition); reports[i].worth == holds && (believed == clockGood || believed == clockHeld) {
			good[reports[i].node] = reports[i].clock
		}
	}
	return good
}
