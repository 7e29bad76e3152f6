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

// clockDifferenceGrace is how long nodes may follow different clocks before it is reported: nodes follow a new grandmaster one after
// another, and the reports of a large cluster are spread over time.
const clockDifferenceGrace = 5 * time.Second

// clockGroups are nodes by a property of their clocks.
type clockGroups map[string][]string

// describe returns one text for each group with its nodes, the largest group first.
func (g clockGroups) describe(singular, plural string) []string {
	keys := slices.SortedFunc(maps.Keys(g), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(g[b]), len(g[a])), strings.Compare(a, b))
	})
	var texts []string
	for _, key := range keys {
		slices.Sort(g[key])
		subject, verb := "node ", singular
		if len(g[key]) > 1 {
			subject, verb = "nodes ", plural
		}
		texts = append(texts, subject+strings.Join(abbreviate(g[key]), ", ")+" "+verb+" "+key)
	}
	return texts
}

// describeClockDifferences returns why good clocks may be further apart than their own error bounds: different sources or TAI offsets.
// It returns "" if they do not differ.
func describeClockDifferences(good map[string]*v1alpha1.NodeClock) string {
	followed, offsets := clockGroups{}, clockGroups{}
	for node, clock := range good {
		if clock == nil {
			continue
		}
		if source := tsnnetwork.FollowedBy(clock); source != "" {
			followed[source] = append(followed[source], node)
		}
		if clock.TAIOffset != nil {
			key := fmt.Sprintf("%d s", *clock.TAIOffset)
			offsets[key] = append(offsets[key], node)
		}
	}
	var differences []string
	if len(followed) > 1 {
		differences = append(differences, "the difference between these clocks is unknown: "+strings.Join(abbreviate(followed.describe("follows", "follow")), ", but ")+
			"; have all nodes follow one")
	}
	if len(offsets) > 1 {
		differences = append(differences, "the nodes' CLOCK_TAI are whole seconds apart, because their kernels have different offsets TAI - UTC: "+
			strings.Join(abbreviate(offsets.describe("has", "have")), ", but ")+"; have the clock daemon set it, for example chronyd by leapsectz")
	}
	return tsnnetwork.Shorten(strings.Join(differences, "; "), maxMessageBytes)
}

// checkClockDifferences describes how the clocks of a network's nodes with pods differ, once they have for clockDifferenceGrace;
// recheckAfter is when to check again until then.
func (r *Networks) checkClockDifferences(network *v1alpha1.TSNNetwork, reports []report) (text string, recheckAfter time.Duration) {
	if network.Spec.Clock != nil {
		text = describeClockDifferences(goodClocks(reports))
	}
	if text == "" {
		delete(r.clocksDifferSince, network.Name)
		return "", 0
	}
	now := r.shared.agents.now()
	since, known := r.clocksDifferSince[network.Name]
	if !known {
		since = now
		if clockOf(network.Status.Conditions).Reason == v1alpha1.ReasonClocksDiffer { // a previous operator has reported it
			since = now.Add(-clockDifferenceGrace)
		}
		r.clocksDifferSince[network.Name] = since
	}
	if left := clockDifferenceGrace - now.Sub(since); left > 0 {
		return "", left
	}
	return text, 0
}

// goodClocks returns the clocks of the nodes that report them as good or in holdover.
func goodClocks(reports []report) map[string]*v1alpha1.NodeClock {
	good := map[string]*v1alpha1.NodeClock{}
	for i := range reports {
		condition := clockOf(reports[i].conditions)
		if trust := trustFromCondition(&condition); reports[i].validity == reportCurrent && (trust == clockGood || trust == clockHoldover) {
			good[reports[i].node] = reports[i].clock
		}
	}
	return good
}
