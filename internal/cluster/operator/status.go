// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// schedule returns the schedule that the nodes shall execute, with findings about an invalid one. An invalid schedule, or one that waits
// for the nodes' clocks, leaves the previous one in force.
func schedule(network *v1alpha1.TSNNetwork, owner string, nodes *nodeSet, nowTAINs int64) (*v1alpha1.ScheduleRequest, []finding) {
	if !tsnnetwork.HasGates(network) {
		return nil, nil
	}
	if owner != network.Name {
		return nil, []finding{{reason: v1alpha1.ReasonScheduleOfAnother, text: fmt.Sprintf("network %s has a schedule or traffic classes "+
			"already, and a node's uplink has them once; pods of this network send by those. Remove them here", owner)}}
	}
	before := network.Status.Schedule
	gates, err := tsnnetwork.GatesOf(network)
	if err != nil {
		return before, []finding{{reason: v1alpha1.ReasonScheduleInvalid, text: err.Error()}}
	}
	request := &v1alpha1.ScheduleRequest{ObservedGeneration: network.Generation, Hash: gates.Hash()}
	if before != nil && before.Hash == request.Hash {
		request.BaseTime = before.BaseTime
		return request, nil
	}
	if network.Spec.Clock != nil && gates.Table.GateEnabled {
		if findings := clockFindings(network, nodes); len(findings) > 0 {
			return before, findings
		}
	}
	request.BaseTime = gates.BaseTime(nowTAINs, scheduleLeadNs)
	return request, nil
}

// status returns the network's status.
func (o *outcome) status() *v1alpha1.TSNNetworkStatus {
	status := &v1alpha1.TSNNetworkStatus{
		Conditions: conditions(o.network, o.request, o.findings, clockCondition(o.network, o.reports, o.clockDifference), o.span.hub), Pods: o.used.total - o.used.detached,
		Schedule: o.request, NodeCounts: countNodes(o), NodeProblems: worst(o.problems), Peers: o.span.peers, MTU: o.span.mtu, ClusterKeys: o.keys,
	}
	status.NodesReady = fmt.Sprintf("%d/%d", status.NodeCounts.Ready, status.NodeCounts.WithPods)
	return status
}

// requeueAfter returns when to reconcile the network again if nothing happens.
func (o *outcome) requeueAfter() time.Duration {
	after := resyncPeriod
	if len(o.findings) > 0 {
		after = retryPeriod
	}
	if len(o.keys) > 0 {
		after = min(after, rollCheckInterval)
	}
	after = earlier(earlier(after, o.recheckAfter), o.span.hubValidFor)
	for i := range o.reports {
		after = earlier(after, o.reports[i].validFor)
	}
	return after
}

// updateStatus writes the network's status, and an Event for each new finding.
func (r *Networks) updateStatus(ctx context.Context, o *outcome) (reconcile.Result, error) {
	network := o.network
	r.createEvents(network, o.findings)
	status := o.status()
	if equality.Semantic.DeepEqual(&network.Status, status) {
		return reconcile.Result{RequeueAfter: o.requeueAfter()}, nil
	}
	every := statusInterval(len(o.used.onNode))
	if clockStatusChanged(&network.Status, status) {
		every = min(every, clockWriteInterval)
	}
	if wait := r.pace.wait(network.Name, every); wait > 0 && !mustWriteNow(network, status) {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	// If the network has changed since it was read this is a conflict: base times have no other record, and a stale cache would lead to a
	// second base time.
	part := metav1.ObjectMeta{Name: network.Name, ResourceVersion: network.ResourceVersion}
	if _, err := applyPart(ctx, r.Client, "TSNNetwork", part, "status", status); err != nil {
		return reconcile.Result{}, fmt.Errorf("write the status of network %s: %w", network.Name, err)
	}
	r.pace.done(network.Name)
	r.createClockEvents(network, status)
	return reconcile.Result{RequeueAfter: o.requeueAfter()}, nil
}

// createEvents creates an Event for each finding that was not there in the previous reconciliation.
func (r *Networks) createEvents(network *v1alpha1.TSNNetwork, findings []finding) {
	before, reported := r.reported[network.Name], map[string]bool{}
	if before == nil { // this operator has just started
		before = map[string]bool{}
		for i := range network.Status.NodeProblems {
			before[problemKey(&network.Status.NodeProblems[i])] = true
			before[network.Status.NodeProblems[i].Reason] = true
		}
		for _, condition := range network.Status.Conditions {
			if condition.Type == v1alpha1.ConditionScheduleAccepted && condition.Status == metav1.ConditionFalse {
				before[condition.Reason] = true
			}
			if condition.Reason == v1alpha1.ReasonClocksDiffer {
				before[condition.Reason] = true
			}
			for text := range strings.SplitSeq(condition.Message, "; ") {
				before[text] = true
			}
		}
	}
	for i := range findings {
		f := &findings[i]
		if f.isQuiet() {
			continue
		}
		if !before[f.key()] && !reported[f.key()] {
			r.Events.Event(network, corev1.EventTypeWarning, f.reason, f.text)
		}
		reported[f.key()] = true
	}
	r.reported[network.Name] = reported
}

// mustWriteNow reports whether nodes or the network's author wait for the status: whether more than the counts of nodes change.
func mustWriteNow(network *v1alpha1.TSNNetwork, status *v1alpha1.TSNNetworkStatus) bool {
	ready := meta.FindStatusCondition(network.Status.Conditions, v1alpha1.ConditionReady)
	return ready == nil || ready.ObservedGeneration != network.Generation ||
		!equality.Semantic.DeepEqual(network.Status.ClusterKeys, status.ClusterKeys) ||
		!equality.Semantic.DeepEqual(network.Status.Schedule, status.Schedule)
}

// conditions returns the network's conditions; unchanged ones keep their transition time. more has optional conditions, nil where the network
// has none.
func conditions(network *v1alpha1.TSNNetwork, request *v1alpha1.ScheduleRequest, findings []finding, optional ...*metav1.Condition) []metav1.Condition {
	all := conditionSet{generation: network.Generation}
	optional = slices.DeleteFunc(optional, func(condition *metav1.Condition) bool { return condition == nil })
	types := []string{v1alpha1.ConditionReady, v1alpha1.ConditionDegraded, v1alpha1.ConditionScheduleAccepted}
	for _, condition := range optional {
		types = append(types, condition.Type)
	}
	isOld := func(condition metav1.Condition) bool { return !slices.Contains(types, condition.Type) }
	all.list = slices.DeleteFunc(slices.Clone(network.Status.Conditions), isOld)
	blocking := slices.DeleteFunc(slices.Clone(findings), func(f finding) bool { return !f.blocks })
	if len(blocking) > 0 {
		all.set(v1alpha1.ConditionReady, metav1.ConditionFalse, blocking[0].reason, join(blocking))
	} else {
		all.set(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAsAsked, "pods can be attached wherever they are placed")
	}
	faults := slices.DeleteFunc(slices.Clone(findings), func(f finding) bool { return f.isQuiet() })
	if len(faults) > 0 {
		all.set(v1alpha1.ConditionDegraded, metav1.ConditionTrue, faults[0].reason, join(faults))
	} else {
		all.set(v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsAsked, "nothing is missing")
	}
	for _, condition := range optional {
		all.set(condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	all.setSchedule(network, request, findings)
	return all.list
}

func newCondition(kind string, status metav1.ConditionStatus, reason, text string) *metav1.Condition {
	return &metav1.Condition{Type: kind, Status: status, Reason: reason, Message: text}
}

// conditionSet builds the conditions for a generation of a network.
type conditionSet struct {
	generation int64
	list       []metav1.Condition
}

func (c *conditionSet) set(kind string, status metav1.ConditionStatus, reason, text string) {
	meta.SetStatusCondition(&c.list, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: text, ObservedGeneration: c.generation,
	})
}

func (c *conditionSet) setSchedule(network *v1alpha1.TSNNetwork, request *v1alpha1.ScheduleRequest, findings []finding) {
	at := slices.IndexFunc(findings, func(f finding) bool {
		return f.reason == v1alpha1.ReasonScheduleInvalid || f.reason == v1alpha1.ReasonScheduleOfAnother || f.reason == v1alpha1.ReasonClockAwaited
	})
	switch {
	case !tsnnetwork.HasGates(network):
		meta.RemoveStatusCondition(&c.list, v1alpha1.ConditionScheduleAccepted)
	case at >= 0 && findings[at].quiet:
		c.set(v1alpha1.ConditionScheduleAccepted, metav1.ConditionUnknown, findings[at].reason, findings[at].text)
	case at >= 0:
		c.set(v1alpha1.ConditionScheduleAccepted, metav1.ConditionFalse, findings[at].reason, findings[at].text)
	case request != nil:
		c.set(v1alpha1.ConditionScheduleAccepted, metav1.ConditionTrue, v1alpha1.ReasonAsAsked,
			fmt.Sprintf("all nodes begin with it at %d.%09d TAI", request.BaseTime.Seconds, request.BaseTime.Nanoseconds))
	}
}

// join lists the texts of findings, each text once.
func join(findings []finding) string {
	var text []string
	known := map[string]bool{}
	for _, f := range findings {
		if !known[f.text] {
			known[f.text] = true
			text = append(text, f.text)
		}
	}
	return strings.Join(abbreviate(text), "; ")
}

// scheduleOwner returns the network whose schedule and classes apply, "" if none has any: a node's uplink has one set of gates. A deleted
// network keeps them until its last pod is gone.
func scheduleOwner(networks []v1alpha1.TSNNetwork) string {
	for _, network := range tsnnetwork.ByAge(networks) {
		deleted := network.DeletionTimestamp != nil
		if tsnnetwork.HasGates(&network) && (!deleted || network.Status.Schedule != nil) {
			return network.Name
		}
	}
	return ""
}
