// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// schedule says what nodes shall execute, and what is wrong with what the network asks for. A schedule that is wrong, or that waits for
// the nodes' clocks, leaves the one before in force.
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
		if waits := awaitsClocks(network, nodes); len(waits) > 0 {
			return before, waits
		}
	}
	request.BaseTime = gates.BaseTime(nowTAINs, scheduleLeadNs)
	return request, nil
}

// outcome is what has become of a network.
type outcome struct {
	used     *usage
	parts    map[string]part
	request  *v1alpha1.ScheduleRequest
	found    []finding
	reports  []report
	problems []problem
	// older tells whether agents of an older release read the parts in the network's status.
	older bool
	// differ says how the nodes' clocks differ, "" if they do not; again is when to look again, 0 for no matter when.
	differ string
	again  time.Duration
	span   span
	// keys are those that the network's nodes believe.
	keys []v1alpha1.ClusterKey
}

// status is what of a network's status is the operator's.
func (o *outcome) status(network *v1alpha1.TSNNetwork) *v1alpha1.TSNNetworkStatus {
	status := &v1alpha1.TSNNetworkStatus{
		Conditions: conditions(network, o.request, o.found, clockCondition(network, o.reports, o.differ), o.span.hub), Pods: o.used.total, Schedule: o.request,
		NodeCounts: countNodes(o), NodeProblems: worst(o.problems), Peers: o.span.peers, MTU: o.span.mtu,
		ClusterKeys: o.keys,
	}
	status.NodesReady = fmt.Sprintf("%d/%d", status.NodeCounts.Ready, status.NodeCounts.WithPods)
	if o.older {
		status.Nodes = olderParts(o.parts, o.used)
	}
	return status
}

// tell writes the operator's part of the network's status, and an Event for each finding that is new.
func (r *Networks) tell(ctx context.Context, network *v1alpha1.TSNNetwork, is *outcome) (reconcile.Result, error) {
	r.makeEvents(network, is.found)
	again := repeatEvery
	if len(is.found) > 0 {
		again = retryAfter
	}
	if len(is.keys) > 0 {
		again = min(again, lookForRollEvery)
	}
	if is.again > 0 {
		again = min(again, is.again)
	}
	if is.span.left > 0 {
		again = min(again, is.span.left)
	}
	for i := range is.reports {
		if left := is.reports[i].left; left > 0 {
			again = min(again, left)
		}
	}
	status := is.status(network)
	if sameStatus(&network.Status, status) {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	every := statusEvery(len(is.used.onNode))
	if clockNews(&network.Status, status) {
		every = min(every, writeClocksEvery)
	}
	if wait := r.pace.wait(network.Name, every); wait > 0 && !pressing(network, status) {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	written, err := r.applyStatus(ctx, network, status)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("write the status of network %s: %w", network.Name, err)
	}
	r.pace.done(network.Name)
	r.sayClocks(network, status)
	return reconcile.Result{RequeueAfter: again}, r.forget(ctx, written, is)
}

// makeEvents says once what is found, as long as it is found.
func (r *Networks) makeEvents(network *v1alpha1.TSNNetwork, found []finding) {
	before, said := r.said[network.Name], map[string]bool{}
	if before == nil { // this operator has just begun
		before = map[string]bool{}
		for i := range network.Status.NodeProblems {
			before[problemKey(&network.Status.NodeProblems[i])] = true
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
	for i := range found {
		f := &found[i]
		if f.isQuiet() {
			continue
		}
		if !before[f.same()] && !said[f.same()] {
			r.Events.Event(network, corev1.EventTypeWarning, f.reason, f.text)
		}
		said[f.same()] = true
	}
	r.said[network.Name] = said
}

// pressing tells whether the status says something that nodes or the network's author wait for, and not only how many nodes there are
// that do. Agents of an older release wait for their parts.
func pressing(network *v1alpha1.TSNNetwork, status *v1alpha1.TSNNetworkStatus) bool {
	ready := meta.FindStatusCondition(network.Status.Conditions, v1alpha1.ConditionReady)
	return ready == nil || ready.ObservedGeneration != network.Generation ||
		!equality.Semantic.DeepEqual(network.Status.ClusterKeys, status.ClusterKeys) ||
		!equality.Semantic.DeepEqual(network.Status.Schedule, status.Schedule) || !sameParts(network.Status.Nodes, status.Nodes)
}

// sameStatus tells whether there is nothing to write.
func sameStatus(have, want *v1alpha1.TSNNetworkStatus) bool {
	return sameParts(have.Nodes, want.Nodes) && have.MTU == want.MTU && equality.Semantic.DeepEqual(have.Peers, want.Peers) &&
		equality.Semantic.DeepEqual(have.ClusterKeys, want.ClusterKeys) && have.Pods == want.Pods && have.NodesReady == want.NodesReady &&
		equality.Semantic.DeepEqual(have.NodeCounts, want.NodeCounts) && equality.Semantic.DeepEqual(have.NodeProblems, want.NodeProblems) &&
		equality.Semantic.DeepEqual(have.Schedule, want.Schedule) && equality.Semantic.DeepEqual(have.Conditions, want.Conditions)
}

// conditions are the network's, of which those that stay as they are keep their time. Of more, which may be nil, some networks have none.
func conditions(network *v1alpha1.TSNNetwork, request *v1alpha1.ScheduleRequest, found []finding, more ...*metav1.Condition) []metav1.Condition {
	all := conditionSet{generation: network.Generation}
	more = slices.DeleteFunc(more, func(one *metav1.Condition) bool { return one == nil })
	has := []string{v1alpha1.ConditionReady, v1alpha1.ConditionDegraded, v1alpha1.ConditionScheduleAccepted}
	for _, one := range more {
		has = append(has, one.Type)
	}
	for _, condition := range network.Status.Conditions {
		if slices.Contains(has, condition.Type) {
			all.list = append(all.list, condition)
		}
	}
	blocking := slices.DeleteFunc(slices.Clone(found), func(f finding) bool { return !f.blocks })
	if len(blocking) > 0 {
		all.set(v1alpha1.ConditionReady, metav1.ConditionFalse, blocking[0].reason, join(blocking))
	} else {
		all.set(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAsAsked, "pods can be attached wherever they are placed")
	}
	faults := slices.DeleteFunc(slices.Clone(found), func(f finding) bool { return f.isQuiet() })
	if len(faults) > 0 {
		all.set(v1alpha1.ConditionDegraded, metav1.ConditionTrue, faults[0].reason, join(faults))
	} else {
		all.set(v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsAsked, "nothing is missing")
	}
	for _, one := range more {
		all.set(one.Type, one.Status, one.Reason, one.Message)
	}
	all.setSchedule(network, request, found)
	return all.list
}

// conditionSet is what becomes of conditions for a generation of their network.
type conditionSet struct {
	generation int64
	list       []metav1.Condition
}

func (c *conditionSet) set(kind string, status metav1.ConditionStatus, reason, text string) {
	meta.SetStatusCondition(&c.list, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: text, ObservedGeneration: c.generation,
	})
}

func (c *conditionSet) setSchedule(network *v1alpha1.TSNNetwork, request *v1alpha1.ScheduleRequest, found []finding) {
	at := slices.IndexFunc(found, func(f finding) bool {
		return f.reason == v1alpha1.ReasonScheduleInvalid || f.reason == v1alpha1.ReasonScheduleOfAnother || f.reason == v1alpha1.ReasonClockAwaited
	})
	switch {
	case !tsnnetwork.HasGates(network):
		meta.RemoveStatusCondition(&c.list, v1alpha1.ConditionScheduleAccepted)
	case at >= 0 && found[at].quiet:
		c.set(v1alpha1.ConditionScheduleAccepted, metav1.ConditionUnknown, found[at].reason, found[at].text)
	case at >= 0:
		c.set(v1alpha1.ConditionScheduleAccepted, metav1.ConditionFalse, found[at].reason, found[at].text)
	case request != nil:
		c.set(v1alpha1.ConditionScheduleAccepted, metav1.ConditionTrue, v1alpha1.ReasonAsAsked,
			fmt.Sprintf("all nodes begin with it at %d.%09d TAI", request.BaseTime.Seconds, request.BaseTime.Nanoseconds))
	}
}

func join(found []finding) string {
	var text []string
	known := map[string]bool{}
	for _, f := range found {
		if !known[f.text] {
			known[f.text] = true
			text = append(text, f.text)
		}
	}
	return strings.Join(some(text), "; ")
}

// applyStatus writes what is the operator's, and leaves the rest to agents of an older release. It is a conflict if the network is another by now
// than was looked at: base times have no other record, and a cache that does not know yet of one that was just given would have
// another given.
func (r *Networks) applyStatus(ctx context.Context, network *v1alpha1.TSNNetwork, status *v1alpha1.TSNNetworkStatus) (*v1alpha1.TSNNetwork, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return nil, err
	}
	// Unstructured, because a typed object would also say that its spec is empty.
	object := &unstructured.Unstructured{Object: map[string]any{"status": fields}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("TSNNetwork"))
	object.SetName(network.Name)
	object.SetResourceVersion(network.ResourceVersion)
	if err := r.Client.Status().Patch(ctx, object, client.Apply, fieldOwner, client.ForceOwnership); err != nil {
		return nil, err
	}
	written := &v1alpha1.TSNNetwork{}
	return written, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, written)
}

// forget removes what agents of an older release have said of nodes of which the status says nothing any more.
func (r *Networks) forget(ctx context.Context, written *v1alpha1.TSNNetwork, is *outcome) error {
	count := len(written.Status.Nodes)
	written.Status.Nodes = slices.DeleteFunc(written.Status.Nodes, func(status v1alpha1.NodeStatus) bool {
		_, has := is.parts[status.Name]
		return !is.older || !has
	})
	if len(written.Status.Nodes) == count {
		return nil
	}
	if err := r.Client.Status().Update(ctx, written, fieldOwner); err != nil {
		return fmt.Errorf("forget nodes of network %s: %w", written.Name, err)
	}
	return nil
}

// olderParts are the nodes' parts as agents of an older release read them.
func olderParts(parts map[string]part, used *usage) []v1alpha1.NodeStatus {
	var nodes []v1alpha1.NodeStatus
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		pods := used.onNode[name]
		node := v1alpha1.NodeStatus{Name: name, Pods: &pods}
		node.IPv4, node.IPv6 = parts[name].texts()
		nodes = append(nodes, node)
	}
	return nodes
}

// sameParts compares what of each node is the operator's.
func sameParts(have, want []v1alpha1.NodeStatus) bool {
	if len(have) != len(want) {
		return false
	}
	known := make(map[string]*v1alpha1.NodeStatus, len(have))
	for i := range have {
		known[have[i].Name] = &have[i]
	}
	for _, node := range want {
		before := known[node.Name]
		if before == nil || before.IPv4 != node.IPv4 || before.IPv6 != node.IPv6 || before.Pods == nil || *before.Pods != *node.Pods {
			return false
		}
	}
	return true
}
