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

// report is an agent's report of a network on its node.
type report struct {
	node string
	// observed is the generation of the network that was reported.
	observed     int64
	scheduleHash string
	conditions   []metav1.Condition
	// clock is the node's clock, nil if the agent has not reported it.
	clock *v1alpha1.NodeClock
	// validity is how reliable the report is, and validFor how long it stays so, 0 for indefinitely.
	validity reportValidity
	validFor time.Duration
}

// reportsOf returns the reports of the nodes with pods on the network, by name.
func reportsOf(o *outcome) []report {
	var reports []report
	for name := range o.used.onNode {
		if o.nodes.all[name] != nil {
			reports = append(reports, reportOf(o.network.Name, name, o.nodes))
		}
	}
	slices.SortFunc(reports, func(a, b report) int { return strings.Compare(a.node, b.node) })
	return reports
}

// reportOf reads a node's TSNNode. Without a report by an agent the conditions are empty.
func reportOf(network, node string, nodes *nodeSet) report {
	result := report{node: node}
	state := nodes.states[node]
	if state == nil || state.Status.AgentVersion == "" {
		return result
	}
	result.validity, result.validFor = nodes.agents.validity(node)
	result.clock = state.Status.Clock
	if _, status := tsnnetwork.OnNode(state, network); status != nil {
		result.observed, result.scheduleHash, result.conditions = status.ObservedGeneration, status.ScheduleHash, status.Conditions
	}
	return result
}

// Ranks of problems, the worst first.
const (
	blocksPods = iota
	breaksPeers
	breaksSchedule
	breaksClock
	breaksCapture
	breaksEncryption
	isUnknown
	isAwaited
)

// problem is a condition that a node does not fulfil.
type problem struct {
	rank int
	v1alpha1.NodeProblem
}

// maxMessageBytes limits a node's message in the network's status, in bytes: the status has messages of many nodes, and one node must not
// make it too large to be written.
const maxMessageBytes = 512

// reportedConditions are the conditions of a node's report whose status False is a problem. Condition Ready is separate: it is also a
// problem if it is missing.
var reportedConditions = []struct {
	condition string
	rank      int
	// applies reports whether the condition counts; nil means always.
	applies func(network *v1alpha1.TSNNetwork, ready *metav1.Condition) bool
}{
	{v1alpha1.ConditionPeersReachable, breaksPeers, nil},
	{v1alpha1.ConditionScheduleOperational, breaksSchedule, nil},
	{v1alpha1.ConditionClockSynchronized, breaksClock, func(network *v1alpha1.TSNNetwork, _ *metav1.Condition) bool { return network.Spec.Clock != nil }},
	{v1alpha1.ConditionCaptureOperational, breaksCapture, nil},
	{v1alpha1.ConditionEncryptionOperational, breaksEncryption, func(_ *v1alpha1.TSNNetwork, ready *metav1.Condition) bool {
		return ready == nil || ready.Reason != v1alpha1.ReasonEncryptionUnavailable // which is the same problem
	}},
}

// problemsOf returns the problems of all nodes with pods on the network, the worst first. leftOut has the nodes that are no peers.
func problemsOf(network *v1alpha1.TSNNetwork, reports []report, leftOut map[string]error) []problem {
	var all []problem
	for i := range reports {
		report := &reports[i]
		add := func(rank int, condition, reason, text string) {
			text = tsnnetwork.Shorten(text, maxMessageBytes)
			all = append(all, problem{rank, v1alpha1.NodeProblem{Node: report.node, Type: condition, Reason: reason, Message: text}})
		}
		if err := leftOut[report.node]; err != nil {
			add(blocksPods, v1alpha1.ConditionReady, v1alpha1.ReasonNodeLeftOut, err.Error())
		}
		ready := meta.FindStatusCondition(report.conditions, v1alpha1.ConditionReady)
		current := ready != nil && report.observed == network.Generation
		switch {
		case current && ready.Status != metav1.ConditionTrue:
			add(blocksPods, v1alpha1.ConditionReady, ready.Reason, ready.Message)
		case report.validity == agentMissing:
			add(isUnknown, v1alpha1.ConditionReady, v1alpha1.ReasonNodeSilent, fmt.Sprintf(noAgent, report.node))
		case !current || report.validity == reportStale:
			add(isAwaited, v1alpha1.ConditionReady, v1alpha1.ReasonNodeWaited, "it has not reported yet that it serves the network")
		}
		for _, row := range reportedConditions {
			condition := meta.FindStatusCondition(report.conditions, row.condition)
			if condition != nil && condition.Status == metav1.ConditionFalse && (row.applies == nil || row.applies(network, ready)) {
				add(row.rank, row.condition, condition.Reason, condition.Message)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b problem) int { return cmp.Compare(a.rank, b.rank) })
	return all
}

// noAgent is the message about a node without an agent that could confirm its last report.
const noAgent = "it has no ready agent, so its state is unknown; look at its pods: " +
	"`kubectl get pods -A -o wide -l app.kubernetes.io/name=kubernetsn --field-selector spec.nodeName=%s`"

// findingsOf converts the nodes' problems into findings of the network.
func findingsOf(problems []problem) []finding {
	var findings []finding
	for i := range problems {
		p := &problems[i]
		next := finding{reason: p.Reason, text: fmt.Sprintf("node %s: %s", p.Node, p.Message), blocks: p.blocks()}
		switch p.rank {
		case breaksClock: // the message has figures, which change
			next.once = problemKey(&p.NodeProblem)
		case breaksPeers: // all nodes may report the same peer
			next.once = p.Reason
		}
		findings = append(findings, next)
	}
	return findings
}

// blocks reports whether the problem may keep pods from being attached. Other problems affect only the pods that are there. A bad clock
// keeps pods from one node only, and the scheduler knows of it.
func (p *problem) blocks() bool {
	return p.rank != breaksPeers && p.rank != breaksSchedule && p.rank != breaksClock && p.rank != breaksCapture && p.rank != breaksEncryption
}

// worst returns the problems that the network's status lists.
func worst(problems []problem) []v1alpha1.NodeProblem {
	var listed []v1alpha1.NodeProblem
	for _, p := range problems[:min(len(problems), v1alpha1.MaxNodeProblems)] {
		listed = append(listed, p.NodeProblem)
	}
	return listed
}

// countNodes counts the nodes that have a subnet of the network and those that fulfil its spec.
func countNodes(o *outcome) *v1alpha1.NodeCounts {
	counts := &v1alpha1.NodeCounts{Allocated: int32(len(o.subnets)), WithPods: int32(len(o.used.onNode))}
	leftOut := map[string]bool{}
	for _, p := range o.problems {
		leftOut[p.Node] = leftOut[p.Node] || p.Reason == v1alpha1.ReasonNodeLeftOut
	}
	for i := range o.reports {
		report := &o.reports[i]
		if report.validity != reportCurrent {
			continue
		}
		if meta.IsStatusConditionTrue(report.conditions, v1alpha1.ConditionReady) && !leftOut[report.node] {
			counts.Ready++
		}
		if o.request != nil && report.scheduleHash == o.request.Hash {
			counts.ScheduleOperational++
		}
	}
	return counts
}
