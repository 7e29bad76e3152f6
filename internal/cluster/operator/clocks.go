// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// clockTrust is whether a node's clock meets a network's requirement.
type clockTrust int

const (
	// clockGood : the clock meets the requirement.
	clockGood clockTrust = iota
	// clockHoldover : the clock has lost its source, and still meets the requirement.
	clockHoldover
	// clockUnreported : the node has not reported yet.
	clockUnreported
	// clockLost : the clock does not meet the requirement, or its error is unknown.
	clockLost
)

// clockTrustOf returns the trust in a node's clock for a network. An agent does not report on networks of which the node has no subnet;
// then the error bound of the clock counts, because a pod could be placed there and the node may execute the network's schedule.
func clockTrustOf(network *v1alpha1.TSNNetwork, state *v1alpha1.TSNNode, now time.Time) clockTrust {
	if state == nil {
		return clockUnreported
	}
	part, status := tsnnetwork.OnNode(state, network.Name)
	if status != nil {
		if condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionClockSynchronized); condition != nil {
			return trustFromCondition(condition)
		}
	}
	if part != nil || state.Status.Clock == nil {
		return clockUnreported
	}
	return trustFromBound(network, state.Status.Clock, now)
}

// trustFromCondition returns the trust from condition ClockSynchronized of a node.
func trustFromCondition(condition *metav1.Condition) clockTrust {
	switch {
	case condition.Status == metav1.ConditionFalse:
		return clockLost
	case condition.Status != metav1.ConditionTrue:
		return clockUnreported
	case condition.Reason == v1alpha1.ReasonClockHoldover:
		return clockHoldover
	}
	return clockGood
}

// trustFromBound compares the error bound of a clock with the network's requirement. Both are rounded up, so that rounding alone never
// makes a clock lost. A clock that has lost its source is trusted no longer than the network's holdover, however small its bound is.
func trustFromBound(network *v1alpha1.TSNNetwork, clock *v1alpha1.NodeClock, now time.Time) clockTrust {
	requirement, _, _ := tsnnetwork.ClockOf(network) // the API server validates it
	bound := clock.ErrorBoundNanoseconds
	switch {
	case clock.State == clockStateUnknown || bound == nil || *bound < 0 || *bound > roundUp(requirement.MaxError.Nanoseconds()):
		return clockLost
	case clock.LostSince != nil && remainingHoldover(network, clock, now) == 0:
		return clockLost
	case clock.State == clockStateHoldover || clock.LostSince != nil:
		return clockHoldover
	}
	return clockGood
}

// remainingHoldover returns how long a network still trusts a clock that has lost its source; 0 if no longer, or if it has a source.
func remainingHoldover(network *v1alpha1.TSNNetwork, clock *v1alpha1.NodeClock, now time.Time) time.Duration {
	if clock == nil || clock.LostSince == nil {
		return 0
	}
	requirement, _, _ := tsnnetwork.ClockOf(network) // the API server validates it
	return max(0, clock.LostSince.Add(requirement.Holdover).Sub(now))
}

// States of a node's clock in its TSNNode.
const (
	clockStateUnknown  = "Unknown"
	clockStateHoldover = "Holdover"
)

// roundUp rounds up to 1, 2 or 5 times a power of ten, as agents do.
func roundUp(value int64) int64 {
	for power := int64(1); ; power *= 10 {
		for _, digit := range []int64{1, 2, 5} {
			if digit*power >= value || power >= 1e18 {
				return digit * power
			}
		}
	}
}

// classifyClocks divides the nodes that execute a network's schedule into those whose clocks are lost, those that have not reported on
// the network's current requirement, and those with good clocks. Nodes without an agent get no schedule and are not waited for.
func classifyClocks(network *v1alpha1.TSNNetwork, nodes *nodeSet) (lost, unreported []string, good map[string]*v1alpha1.NodeClock) {
	good = map[string]*v1alpha1.NodeClock{}
	for name, node := range nodes.all {
		if !active(node) {
			continue
		}
		validity, _ := nodes.agents.validity(name)
		if validity == agentMissing {
			continue
		}
		report := reportOf(network.Name, name, nodes)
		switch trust := clockTrustOf(network, nodes.states[name], nodes.agents.now()); {
		case trust == clockLost:
			lost = append(lost, name)
		case trust == clockUnreported, validity == reportStale, report.conditions != nil && report.observed != network.Generation:
			unreported = append(unreported, name)
		default:
			good[name] = report.clock
		}
	}
	slices.Sort(lost)
	slices.Sort(unreported)
	return lost, unreported, good
}

// clockFindings reports why a schedule does not start yet. This is a fault only if a clock is lost or clocks differ.
func clockFindings(network *v1alpha1.TSNNetwork, nodes *nodeSet) []finding {
	lost, unreported, good := classifyClocks(network, nodes)
	difference := describeClockDifferences(good)
	awaited := finding{reason: v1alpha1.ReasonClockAwaited, once: v1alpha1.ReasonClockAwaited}
	switch {
	case len(lost) > 0:
		awaited.text = fmt.Sprintf("the schedule starts when the clocks of all nodes that execute it are good enough, and these are not: %s; "+
			"`ktsn clock` shows why", strings.Join(abbreviate(lost), ", "))
	case difference != "":
		awaited.text = "the schedule starts when all nodes that execute it follow one clock, and they do not: " + difference
	case len(unreported) > 0:
		awaited.quiet = true
		awaited.text = "the schedule starts when these nodes have reported their clocks: " + strings.Join(abbreviate(unreported), ", ")
	default:
		return nil
	}
	return []finding{awaited}
}

// clockCondition returns condition ClockSynchronized of a network from the reports of the nodes with pods, nil if the network has no
// requirement. The message names the worst nodes. difference describes how clocks differ that are good by themselves.
func clockCondition(network *v1alpha1.TSNNetwork, reports []report, difference string) *metav1.Condition {
	if network.Spec.Clock == nil {
		return nil
	}
	var lost, holdover, unreported, silent []string
	reason := ""
	for i := range reports {
		node := reports[i].node
		condition := meta.FindStatusCondition(reports[i].conditions, v1alpha1.ConditionClockSynchronized)
		trust := clockUnreported
		if condition != nil {
			trust = trustFromCondition(condition)
		}
		switch {
		case reports[i].validity == agentMissing:
			silent = append(silent, node)
		case trust == clockUnreported || reports[i].validity == reportStale:
			unreported = append(unreported, node)
		case trust == clockLost:
			reason = cmp.Or(reason, condition.Reason)
			lost = append(lost, describeClock(node, condition))
		case trust == clockHoldover:
			holdover = append(holdover, describeClock(node, condition))
		}
	}
	kind := v1alpha1.ConditionClockSynchronized
	switch {
	case len(lost) > 0:
		return newCondition(kind, metav1.ConditionFalse, reason, strings.Join(abbreviate(lost), "; "))
	case difference != "":
		return newCondition(kind, metav1.ConditionFalse, v1alpha1.ReasonClocksDiffer, difference)
	case len(silent) > 0:
		return newCondition(kind, metav1.ConditionUnknown, v1alpha1.ReasonNodeSilent, "these nodes have no ready agent: "+strings.Join(abbreviate(silent), ", "))
	case len(unreported) > 0:
		return newCondition(kind, metav1.ConditionUnknown, v1alpha1.ReasonNodeWaited,
			"these nodes have not reported their clocks yet: "+strings.Join(abbreviate(unreported), ", "))
	case len(holdover) > 0:
		return newCondition(kind, metav1.ConditionTrue, v1alpha1.ReasonClockHoldover, strings.Join(abbreviate(holdover), "; "))
	}
	return newCondition(kind, metav1.ConditionTrue, v1alpha1.ReasonAsAsked, "the clocks of all nodes with pods are good enough")
}

func describeClock(node string, condition *metav1.Condition) string {
	return fmt.Sprintf("node %s: %s", node, tsnnetwork.Shorten(condition.Message, maxMessageBytes))
}

// clockStatusChanged reports whether the condition or the problems of clocks have changed.
func clockStatusChanged(before, after *v1alpha1.TSNNetworkStatus) bool {
	previous, condition := clockOf(before.Conditions), clockOf(after.Conditions)
	return previous.Status != condition.Status || previous.Reason != condition.Reason || !slices.Equal(clockProblems(before), clockProblems(after))
}

// clockOf returns condition ClockSynchronized, empty if there is none.
func clockOf(conditions []metav1.Condition) metav1.Condition {
	if condition := meta.FindStatusCondition(conditions, v1alpha1.ConditionClockSynchronized); condition != nil {
		return *condition
	}
	return metav1.Condition{}
}

// clockProblems returns the keys of the nodes' problems with clocks.
func clockProblems(status *v1alpha1.TSNNetworkStatus) []string {
	var all []string
	for _, p := range status.NodeProblems {
		if p.Type == v1alpha1.ConditionClockSynchronized {
			all = append(all, problemKey(&p))
		}
	}
	return all
}

// problemKey identifies a problem of a node, whose message may change.
func problemKey(p *v1alpha1.NodeProblem) string { return p.Node + " " + p.Type + " " + p.Reason }

// createClockEvents creates an Event when the network's clock condition changes to holdover or recovers; each lost node has its own
// Event.
func (r *Networks) createClockEvents(network *v1alpha1.TSNNetwork, status *v1alpha1.TSNNetworkStatus) {
	previous, condition := clockOf(network.Status.Conditions), clockOf(status.Conditions)
	switch {
	case previous.Status == condition.Status && previous.Reason == condition.Reason:
	case condition.Reason == v1alpha1.ReasonClockHoldover:
		r.Events.Event(network, corev1.EventTypeWarning, condition.Reason, condition.Message)
	case condition.Status == metav1.ConditionTrue && (previous.Status == metav1.ConditionFalse || previous.Reason == v1alpha1.ReasonClockHoldover):
		r.Events.Event(network, corev1.EventTypeNormal, v1alpha1.ReasonClockSynchronized, condition.Message)
	}
}

// kubeletReadyFor returns how long a node's kubelet has been ready, negative if it is not.
func kubeletReadyFor(node *corev1.Node, now time.Time) time.Duration {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return max(0, now.Sub(condition.LastTransitionTime.Time))
		}
	}
	return -1
}

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
