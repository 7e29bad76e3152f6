// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// schedule says what nodes shall execute, and what is wrong with what the network asks for. A schedule that is wrong
// leaves the one before in force.
func schedule(network *v1alpha1.TSNNetwork, owner string, nowTAINs int64) (*v1alpha1.ScheduleRequest, []finding) {
	if !tsnnetwork.HasGates(network) {
		return nil, nil
	}
	if owner != network.Name {
		return nil, []finding{{v1alpha1.ReasonScheduleOfAnother, fmt.Sprintf("network %s has a schedule or traffic classes already, "+
			"and a node's uplink has them once; pods of this network send by those. Remove them here", owner), false}}
	}
	before := network.Status.Schedule
	gates, err := tsnnetwork.GatesOf(network)
	if err != nil {
		return before, []finding{{v1alpha1.ReasonScheduleInvalid, err.Error(), false}}
	}
	request := &v1alpha1.ScheduleRequest{ObservedGeneration: network.Generation, Hash: gates.Hash()}
	if before != nil && before.Hash == request.Hash {
		request.BaseTime = before.BaseTime
	} else {
		request.BaseTime = gates.BaseTime(nowTAINs, scheduleLeadNs)
	}
	return request, nil
}

// nodeFindings are what nodes with pods of the network say of it.
func nodeFindings(network *v1alpha1.TSNNetwork, used *usage, parts []v1alpha1.NodeStatus) []finding {
	var found []finding
	for _, part := range parts {
		if used.onNode[part.Name] == 0 {
			continue
		}
		conditions := reported(network, part.Name)
		ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
		switch {
		case ready == nil || ready.ObservedGeneration != network.Generation:
			found = append(found, finding{v1alpha1.ReasonNodeWaited, fmt.Sprintf("node %s has not said yet that it serves the network", part.Name), true})
		case ready.Status != metav1.ConditionTrue:
			found = append(found, finding{ready.Reason, fmt.Sprintf("node %s: %s", part.Name, ready.Message), true})
		}
		gates := meta.FindStatusCondition(conditions, v1alpha1.ConditionScheduleOperational)
		if gates != nil && gates.Status == metav1.ConditionFalse {
			found = append(found, finding{gates.Reason, fmt.Sprintf("node %s: %s", part.Name, gates.Message), false})
		}
	}
	return found
}

func reported(network *v1alpha1.TSNNetwork, node string) []metav1.Condition {
	for _, status := range network.Status.Nodes {
		if status.Name == node {
			return status.Conditions
		}
	}
	return nil
}

// tell writes the operator's part of the network's status, and an Event for each finding that is new.
func (r *Networks) tell(ctx context.Context, network *v1alpha1.TSNNetwork, used *usage, parts []v1alpha1.NodeStatus,
	request *v1alpha1.ScheduleRequest, found []finding) error {
	before := messages(network)
	for _, f := range found {
		if f.reason != v1alpha1.ReasonNodeWaited && !strings.Contains(before, f.text) {
			r.Events.Event(network, corev1.EventTypeWarning, f.reason, f.text)
		}
	}
	status := &v1alpha1.TSNNetworkStatus{
		Conditions: conditions(network, request, found), Pods: used.total, Schedule: request, Nodes: parts,
		NodesReady: countReady(network, used, parts),
	}
	written, err := r.applyStatus(ctx, network, status)
	if err != nil {
		return fmt.Errorf("write the status of network %s: %w", network.Name, err)
	}
	return r.forget(ctx, written, parts)
}

func messages(network *v1alpha1.TSNNetwork) string {
	var text []string
	for _, condition := range network.Status.Conditions {
		text = append(text, condition.Message)
	}
	return strings.Join(text, "\n")
}

// countReady is how many nodes of those with pods serve the network.
func countReady(network *v1alpha1.TSNNetwork, used *usage, parts []v1alpha1.NodeStatus) string {
	ready := 0
	for _, part := range parts {
		if used.onNode[part.Name] > 0 && meta.IsStatusConditionTrue(reported(network, part.Name), v1alpha1.ConditionReady) {
			ready++
		}
	}
	return fmt.Sprintf("%d/%d", ready, len(used.onNode))
}

// conditions are the network's, of which those that stay as they are keep their time.
func conditions(network *v1alpha1.TSNNetwork, request *v1alpha1.ScheduleRequest, found []finding) []metav1.Condition {
	var kept []metav1.Condition
	for _, condition := range network.Status.Conditions {
		switch condition.Type {
		case v1alpha1.ConditionReady, v1alpha1.ConditionDegraded, v1alpha1.ConditionScheduleAccepted:
			kept = append(kept, condition)
		}
	}
	set := func(kind string, status bool, reason, text string) {
		value := metav1.ConditionFalse
		if status {
			value = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&kept, metav1.Condition{
			Type: kind, Status: value, Reason: reason, Message: text, ObservedGeneration: network.Generation,
		})
	}
	blocking := slices.DeleteFunc(slices.Clone(found), func(f finding) bool { return !f.blocks })
	if len(blocking) > 0 {
		set(v1alpha1.ConditionReady, false, blocking[0].reason, join(blocking))
	} else {
		set(v1alpha1.ConditionReady, true, v1alpha1.ReasonAsAsked, "pods can be attached wherever they are placed")
	}
	// What nodes have not said yet is no fault.
	faults := slices.DeleteFunc(slices.Clone(found), func(f finding) bool { return f.reason == v1alpha1.ReasonNodeWaited })
	if len(faults) > 0 {
		set(v1alpha1.ConditionDegraded, true, faults[0].reason, join(faults))
	} else {
		set(v1alpha1.ConditionDegraded, false, v1alpha1.ReasonAsAsked, "nothing is missing")
	}
	setScheduleCondition(network, request, found, set, &kept)
	return kept
}

func setScheduleCondition(network *v1alpha1.TSNNetwork, request *v1alpha1.ScheduleRequest, found []finding,
	set func(kind string, status bool, reason, text string), kept *[]metav1.Condition) {
	at := slices.IndexFunc(found, func(f finding) bool {
		return f.reason == v1alpha1.ReasonScheduleInvalid || f.reason == v1alpha1.ReasonScheduleOfAnother
	})
	switch {
	case !tsnnetwork.HasGates(network):
		meta.RemoveStatusCondition(kept, v1alpha1.ConditionScheduleAccepted)
	case at >= 0:
		set(v1alpha1.ConditionScheduleAccepted, false, found[at].reason, found[at].text)
	case request != nil:
		set(v1alpha1.ConditionScheduleAccepted, true, v1alpha1.ReasonAsAsked,
			fmt.Sprintf("all nodes begin with it at %d.%09d TAI", request.BaseTime.Seconds, request.BaseTime.Nanoseconds))
	}
}

func join(found []finding) string {
	var text []string
	for _, f := range found {
		if !slices.Contains(text, f.text) {
			text = append(text, f.text)
		}
	}
	return strings.Join(some(text), "; ")
}

// applyStatus writes what is the operator's, and leaves the rest to the agents. It is a conflict if the network is another by now
// than was looked at: parts and base times have no other record, and a cache that does not know yet of those that were just given
// would have others given.
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

// forget removes what agents have said of nodes that have no part any more.
func (r *Networks) forget(ctx context.Context, written *v1alpha1.TSNNetwork, parts []v1alpha1.NodeStatus) error {
	count := len(written.Status.Nodes)
	written.Status.Nodes = slices.DeleteFunc(written.Status.Nodes, func(status v1alpha1.NodeStatus) bool {
		return !slices.ContainsFunc(parts, func(part v1alpha1.NodeStatus) bool { return part.Name == status.Name })
	})
	if len(written.Status.Nodes) == count {
		return nil
	}
	if err := r.Client.Status().Update(ctx, written, fieldOwner); err != nil {
		return fmt.Errorf("forget nodes of network %s: %w", written.Name, err)
	}
	return nil
}
