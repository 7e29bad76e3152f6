// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// belief is how far a node's clock is believed for a network.
type belief int

const (
	// clockGood : it is good enough.
	clockGood belief = iota
	// clockHeld : nobody keeps it any more, and it is still good enough.
	clockHeld
	// clockUnsaid : the node has not said it yet.
	clockUnsaid
	// clockLost : it is not good enough, or nobody knows how good it is.
	clockLost
)

// beliefIn is what a node says of its clock for a network. Of a network that the node has no part of its agent says nothing, and its
// clock alone counts: a pod could be placed there, and the node may execute the network's schedule.
func beliefIn(network *v1alpha1.TSNNetwork, state *v1alpha1.TSNNode, now time.Time) belief {
	if state == nil {
		return clockUnsaid
	}
	part, status := tsnnetwork.OnNode(state, network.Name)
	if status != nil {
		if condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionClockSynchronized); condition != nil {
			return beliefOf(condition)
		}
	}
	if part != nil || state.Status.Clock == nil {
		return clockUnsaid
	}
	return beliefByBound(network, state.Status.Clock, now)
}

// beliefOf reads a node's condition.
func beliefOf(condition *metav1.Condition) belief {
	switch {
	case condition.Status == metav1.ConditionFalse:
		return clockLost
	case condition.Status != metav1.ConditionTrue:
		return clockUnsaid
	case condition.Reason == v1alpha1.ReasonClockHoldover:
		return clockHeld
	}
	return clockGood
}

// beliefByBound compares the bound of a clock's error with what a network asks for. The bound is rounded up, and so is what it is
// compared with: a clock that is good enough must not be lost by rounding. One that nobody keeps is believed for the network's holdover at
// most, however small the bound still is.
func beliefByBound(network *v1alpha1.TSNNetwork, clock *v1alpha1.NodeClock, now time.Time) belief {
	asked, _, _ := tsnnetwork.ClockOf(network) // the API server takes none that cannot be read
	bound := clock.ErrorBoundNanoseconds
	switch {
	case clock.State == clockStateUnknown || bound == nil || *bound < 0 || *bound > rounded(asked.MaxError.Nanoseconds()):
		return clockLost
	case clock.LostSince != nil && holdoverLeft(network, clock, now) == 0:
		return clockLost
	case clock.State == clockStateHoldover || clock.LostSince != nil:
		return clockHeld
	}
	return clockGood
}

// holdoverLeft is for how long a network still believes a clock that nobody keeps; 0: not any more, or somebody keeps it.
func holdoverLeft(network *v1alpha1.TSNNetwork, clock *v1alpha1.NodeClock, now time.Time) time.Duration {
	if clock == nil || clock.LostSince == nil {
		return 0
	}
	asked, _, _ := tsnnetwork.ClockOf(network) // the API server takes none that cannot be read
	return max(0, clock.LostSince.Add(asked.Holdover).Sub(now))
}

// States of a node's clock, as agents write them.
const (
	clockStateUnknown  = "Unknown"
	clockStateHoldover = "Holdover"
)

// rounded rounds up to 1, 2 or 5 times a power of ten, as agents do.
func rounded(value int64) int64 {
	for power := int64(1); ; power *= 10 {
		for _, digit := range []int64{1, 2, 5} {
			if digit*power >= value || power >= 1e18 {
				return digit * power
			}
		}
	}
}

// unready names the nodes that execute a network's schedule whose clocks are not good enough to begin with another one: those that are
// lost, and those that have not said it of what the network asks for now. Of the others it has the clocks. A node without an agent that
// answers is not told of a schedule, and not waited for.
func unready(network *v1alpha1.TSNNetwork, nodes *nodeSet) (lost, unsaid []string, good map[string]*v1alpha1.NodeClock) {
	good = map[string]*v1alpha1.NodeClock{}
	for name, node := range nodes.all {
		if !active(node) {
			continue
		}
		worth, _ := nodes.agents.worth(name)
		if worth == isSilent {
			continue
		}
		report := reportOf(network.Name, name, nodes)
		switch believed := beliefIn(network, nodes.states[name], nodes.agents.now()); {
		case believed == clockLost:
			lost = append(lost, name)
		case believed == clockUnsaid, worth == isOld, report.conditions != nil && report.observed != network.Generation:
			unsaid = append(unsaid, name)
		default:
			good[name] = report.clock
		}
	}
	slices.Sort(lost)
	slices.Sort(unsaid)
	return lost, unsaid, good
}

// awaitsClocks says why a schedule does not begin yet, which is a fault only if a clock is bad.
func awaitsClocks(network *v1alpha1.TSNNetwork, nodes *nodeSet) []finding {
	lost, unsaid, good := unready(network, nodes)
	differ := differing(good)
	waits := finding{reason: v1alpha1.ReasonClockAwaited, once: v1alpha1.ReasonClockAwaited}
	switch {
	case len(lost) > 0:
		waits.text = fmt.Sprintf("the schedule begins when the clocks of all nodes that execute it are good enough, and these are not: %s; "+
			"`ktsn clock` says why", strings.Join(some(lost), ", "))
	case differ != "":
		waits.text = "the schedule begins when all nodes that execute it follow one clock, and they do not: " + differ
	case len(unsaid) > 0:
		waits.quiet = true
		waits.text = "the schedule begins when these nodes have said how good their clocks are: " + strings.Join(some(unsaid), ", ")
	default:
		return nil
	}
	return []finding{waits}
}

// clockCondition sums up what the nodes with pods say of their clocks, nil if the network does not ask. The worst are named.
// differ says how those differ that are good by themselves.
func clockCondition(network *v1alpha1.TSNNetwork, reports []report, differ string) *metav1.Condition {
	if network.Spec.Clock == nil {
		return nil
	}
	var lost, held, unsaid, silent []string
	reason := ""
	for i := range reports {
		node := reports[i].node
		condition := meta.FindStatusCondition(reports[i].conditions, v1alpha1.ConditionClockSynchronized)
		believed := clockUnsaid
		if condition != nil {
			believed = beliefOf(condition)
		}
		switch {
		case reports[i].worth == isSilent:
			silent = append(silent, node)
		case believed == clockUnsaid || reports[i].worth == isOld:
			unsaid = append(unsaid, node)
		case believed == clockLost:
			reason = cmp.Or(reason, condition.Reason)
			lost = append(lost, sentenceOf(node, condition))
		case believed == clockHeld:
			held = append(held, sentenceOf(node, condition))
		}
	}
	newCondition := func(status metav1.ConditionStatus, reason, text string) *metav1.Condition {
		return &metav1.Condition{Type: v1alpha1.ConditionClockSynchronized, Status: status, Reason: reason, Message: text}
	}
	switch {
	case len(lost) > 0:
		return newCondition(metav1.ConditionFalse, reason, strings.Join(some(lost), "; "))
	case differ != "":
		return newCondition(metav1.ConditionFalse, v1alpha1.ReasonClocksDiffer, differ)
	case len(silent) > 0:
		return newCondition(metav1.ConditionUnknown, v1alpha1.ReasonNodeSilent, "these nodes have no agent that is ready: "+strings.Join(some(silent), ", "))
	case len(unsaid) > 0:
		return newCondition(metav1.ConditionUnknown, v1alpha1.ReasonNodeWaited,
			"these nodes have not said yet how good their clocks are: "+strings.Join(some(unsaid), ", "))
	case len(held) > 0:
		return newCondition(metav1.ConditionTrue, v1alpha1.ReasonClockHoldover, strings.Join(some(held), "; "))
	}
	return newCondition(metav1.ConditionTrue, v1alpha1.ReasonAsAsked, "the clocks of all nodes with pods are good enough")
}

func sentenceOf(node string, condition *metav1.Condition) string {
	return fmt.Sprintf("node %s: %s", node, tsnnetwork.Shorten(condition.Message, mostOfMessage))
}

// clockNews tells whether a status says something else of clocks than the one before: of the network's, or of other nodes.
func clockNews(before, after *v1alpha1.TSNNetworkStatus) bool {
	was, condition := clockOf(before.Conditions), clockOf(after.Conditions)
	return was.Status != condition.Status || was.Reason != condition.Reason || !slices.Equal(clockProblems(before), clockProblems(after))
}

// clockOf is a network's condition, empty where it has none.
func clockOf(conditions []metav1.Condition) metav1.Condition {
	if condition := meta.FindStatusCondition(conditions, v1alpha1.ConditionClockSynchronized); condition != nil {
		return *condition
	}
	return metav1.Condition{}
}

// clockProblems are those of clocks, without their sentences.
func clockProblems(status *v1alpha1.TSNNetworkStatus) []string {
	var all []string
	for _, p := range status.NodeProblems {
		if p.Type == v1alpha1.ConditionClockSynchronized {
			all = append(all, problemKey(&p))
		}
	}
	return all
}

// problemKey tells problems of nodes apart whose sentences may change.
func problemKey(p *v1alpha1.NodeProblem) string { return p.Node + " " + p.Type + " " + p.Reason }

// createClockEvents makes an Event of what a network's condition says of clocks from now on; of each node that is bad there is one anyway.
func (r *Networks) createClockEvents(network *v1alpha1.TSNNetwork, status *v1alpha1.TSNNetworkStatus) {
	was, condition := clockOf(network.Status.Conditions), clockOf(status.Conditions)
	switch {
	case was.Status == condition.Status && was.Reason == condition.Reason:
	case condition.Reason == v1alpha1.ReasonClockHoldover:
		r.Events.Event(network, corev1.EventTypeWarning, condition.Reason, condition.Message)
	case condition.Status == metav1.ConditionTrue && (was.Status == metav1.ConditionFalse || was.Reason == v1alpha1.ReasonClockHoldover):
		r.Events.Event(network, corev1.EventTypeNormal, v1alpha1.ReasonClockSynchronized, condition.Message)
	}
}

// answersFor is for how long a node's kubelet has answered, below zero if it does not.
func answersFor(node *corev1.Node, now time.Time) time.Duration {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return max(0, now.Sub(condition.LastTransitionTime.Time))
		}
	}
	return -1
}
