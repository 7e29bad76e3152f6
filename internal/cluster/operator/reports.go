// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// report is what an agent says of a network on its node.
type report struct {
	node string
	// observed is the generation of the network that it is about.
	observed     int64
	scheduleHash string
	conditions   []metav1.Condition
	// clock is the node's, nil where its agent says nothing of it.
	clock *v1alpha1.NodeClock
	// worth is what it is worth, saysNothing whether its agent does not speak of clocks that are asked for; left is for how long, 0 for ever.
	worth       worth
	saysNothing bool
	left        time.Duration
}

// reportsOf are those of the nodes with pods on the network.
func reportsOf(network *v1alpha1.TSNNetwork, used *usage, nodes *nodeSet) []report {
	older := make(map[string]*v1alpha1.NodeStatus, len(network.Status.Nodes))
	for i := range network.Status.Nodes {
		older[network.Status.Nodes[i].Name] = &network.Status.Nodes[i]
	}
	var all []report
	for name := range used.onNode {
		if nodes.all[name] == nil {
			continue
		}
		made := reportOf(network.Name, name, nodes, older[name])
		if network.Spec.Clock != nil {
			var left time.Duration
			made.saysNothing, left = nodes.agents.saysNothing(nodes.states[name])
			made.left = max(made.left, left) // one of them is 0: who says nothing is ready
		}
		all = append(all, made)
	}
	slices.SortFunc(all, func(a, b report) int { return strings.Compare(a.node, b.node) })
	return all
}

// reportOf reads what an agent says in its TSNNode, else what one of an older release says in the network's status.
func reportOf(network, node string, nodes *nodeSet, older *v1alpha1.NodeStatus) report {
	made := report{node: node}
	if state := nodes.states[node]; state != nil && state.Status.AgentVersion != "" {
		made.worth, made.left = nodes.agents.worth(node)
		made.clock = state.Status.Clock
		for _, is := range state.Status.Networks {
			if is.Name == network {
				made.observed, made.scheduleHash, made.conditions = is.ObservedGeneration, is.ScheduleHash, is.Conditions
			}
		}
		return made
	}
	if older != nil {
		made.scheduleHash, made.conditions = older.ScheduleHash, older.Conditions
		if ready := meta.FindStatusCondition(older.Conditions, v1alpha1.ConditionReady); ready != nil {
			made.observed = ready.ObservedGeneration
		}
	}
	return made
}

// How bad problems are.
const (
	blocksPods = iota
	breaksSchedule
	breaksClock
	breaksCapture
	breaksEncryption
	isUnknown
	isAwaited
)

// problem is something that does not hold on a node.
type problem struct {
	rank int
	v1alpha1.NodeProblem
}

// mostOfMessage is how many bytes of what is said of a node the network's status has: it has room for the sentences of many nodes, and
// one node must not keep it from being written.
const mostOfMessage = 512

// problemsOf are those of all nodes with pods on the network, the worst first.
func problemsOf(network *v1alpha1.TSNNetwork, reports []report, leftOut map[string]error) []problem {
	var all []problem
	found := func(rank int, node, kind, reason, text string) {
		text = tsnnetwork.Shorten(text, mostOfMessage)
		all = append(all, problem{rank, v1alpha1.NodeProblem{Node: node, Type: kind, Reason: reason, Message: text}})
	}
	for i := range reports {
		is := &reports[i]
		if err := leftOut[is.node]; err != nil {
			found(blocksPods, is.node, v1alpha1.ConditionReady, v1alpha1.ReasonNodeLeftOut, err.Error())
		}
		ready := meta.FindStatusCondition(is.conditions, v1alpha1.ConditionReady)
		known := ready != nil && is.observed == network.Generation
		switch {
		case known && ready.Status != metav1.ConditionTrue:
			found(blocksPods, is.node, v1alpha1.ConditionReady, ready.Reason, ready.Message)
		case is.worth == isSilent:
			found(isUnknown, is.node, v1alpha1.ConditionReady, v1alpha1.ReasonNodeSilent, fmt.Sprintf(noAgent, is.node))
		case !known || is.worth == isOld:
			found(isAwaited, is.node, v1alpha1.ConditionReady, v1alpha1.ReasonNodeWaited, "it has not said yet that it serves the network")
		}
		gates := meta.FindStatusCondition(is.conditions, v1alpha1.ConditionScheduleOperational)
		if gates != nil && gates.Status == metav1.ConditionFalse {
			found(breaksSchedule, is.node, v1alpha1.ConditionScheduleOperational, gates.Reason, gates.Message)
		}
		clock := meta.FindStatusCondition(is.conditions, v1alpha1.ConditionClockSynchronized)
		switch {
		case network.Spec.Clock == nil:
		case clock != nil && clock.Status == metav1.ConditionFalse:
			found(breaksClock, is.node, v1alpha1.ConditionClockSynchronized, clock.Reason, clock.Message)
		case clock == nil && is.saysNothing:
			found(breaksClock, is.node, v1alpha1.ConditionClockSynchronized, v1alpha1.ReasonAgentTooOld, nothingSaid)
		}
		capture := meta.FindStatusCondition(is.conditions, v1alpha1.ConditionCaptureOperational)
		if capture != nil && capture.Status == metav1.ConditionFalse {
			found(breaksCapture, is.node, v1alpha1.ConditionCaptureOperational, capture.Reason, capture.Message)
		}
		encryption := meta.FindStatusCondition(is.conditions, v1alpha1.ConditionEncryptionOperational)
		if encryption != nil && encryption.Status == metav1.ConditionFalse && (ready == nil || ready.Reason != v1alpha1.ReasonEncryptionUnavailable) {
			found(breaksEncryption, is.node, v1alpha1.ConditionEncryptionOperational, encryption.Reason, encryption.Message)
		}
	}
	slices.SortStableFunc(all, func(a, b problem) int { return cmp.Compare(a.rank, b.rank) })
	return all
}

// noAgent is said of a node whose agent is not there to say whether what it has said still holds.
const noAgent = "it has no agent that is ready, so that nobody knows what holds there; look at its pods: " +
	"`kubectl get pods -A -o wide -l app.kubernetes.io/name=kubernetsn --field-selector spec.nodeName=%s`"

// findingsOf says of a network what is wrong on its nodes.
func findingsOf(problems []problem) []finding {
	var found []finding
	for i := range problems {
		p := &problems[i]
		is := finding{reason: p.Reason, text: fmt.Sprintf("node %s: %s", p.Node, p.Message), blocks: p.blocks()}
		if p.rank == breaksClock { // whose sentence has figures, which change
			is.once = problemKey(&p.NodeProblem)
		}
		found = append(found, is)
	}
	return found
}

// blocks tells whether it may keep pods from being attached: of other problems those that are there take the harm. A bad clock keeps
// pods from one node only, and the scheduler knows of it.
func (p *problem) blocks() bool {
	return p.rank != breaksSchedule && p.rank != breaksClock && p.rank != breaksCapture && p.rank != breaksEncryption
}

// worst are the problems that the network's status names.
func worst(problems []problem) []v1alpha1.NodeProblem {
	var named []v1alpha1.NodeProblem
	for _, p := range problems[:min(len(problems), v1alpha1.MaxNodeProblems)] {
		named = append(named, p.NodeProblem)
	}
	return named
}

// countNodes counts the nodes that have a part of the network and those that do what it asks for.
func countNodes(is *outcome) *v1alpha1.NodeCounts {
	counts := &v1alpha1.NodeCounts{Allocated: int32(len(is.parts)), WithPods: int32(len(is.used.onNode))}
	leftOut := map[string]bool{}
	for _, p := range is.problems {
		leftOut[p.Node] = leftOut[p.Node] || p.Reason == v1alpha1.ReasonNodeLeftOut
	}
	for i := range is.reports {
		report := &is.reports[i]
		if report.worth != holds {
			continue
		}
		if meta.IsStatusConditionTrue(report.conditions, v1alpha1.ConditionReady) && !leftOut[report.node] {
			counts.Ready++
		}
		if is.request != nil && report.scheduleHash == is.request.Hash {
			counts.ScheduleOperational++
		}
	}
	return counts
}
