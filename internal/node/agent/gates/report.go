// SPDX-License-Identifier: Apache-2.0

package gates

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/schedule"
)

// report says in a network's status what holds on this node, if the node has a part of the network and something has
// changed.
func (r *Reconciler) report(ctx context.Context, about *v1alpha1.TSNNetwork, node *corev1.Node, now *seen) error {
	at := slices.IndexFunc(about.Status.Nodes, func(status v1alpha1.NodeStatus) bool { return status.Name == r.Node })
	if at < 0 || about.Status.Nodes[at].IPv4 == "" {
		return nil
	}
	before := about.Status.Nodes[at]
	after := v1alpha1.NodeStatus{Name: r.Node, Conditions: slices.Clone(before.Conditions)}
	if now.status != nil {
		after.Uplink, after.LinkSpeed = now.status.Interface, schedule.LinkSpeed(now.status.LinkSpeedBps)
	}
	r.set(&after, about, r.ready(about, node, now))
	if request := about.Status.Schedule; request != nil {
		condition := operational(about, now)
		if condition.Status == metav1.ConditionTrue {
			after.ScheduleHash = request.Hash
		}
		r.set(&after, about, condition)
	} else {
		meta.RemoveStatusCondition(&after.Conditions, v1alpha1.ConditionScheduleOperational)
	}
	same := before
	same.IPv4, same.IPv6, same.Pods = "", "", nil
	if equality.Semantic.DeepEqual(same, after) {
		return nil
	}
	return r.apply(ctx, about.Name, &after)
}

func (r *Reconciler) set(status *v1alpha1.NodeStatus, about *v1alpha1.TSNNetwork, condition metav1.Condition) {
	condition.ObservedGeneration = about.Generation
	condition.LastTransitionTime = metav1.NewTime(r.Now())
	meta.SetStatusCondition(&status.Conditions, condition)
}

// ready says whether pods can be on the network here.
func (r *Reconciler) ready(about *v1alpha1.TSNNetwork, node *corev1.Node, now *seen) metav1.Condition {
	bad := func(reason, text string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: text}
	}
	uplink, err := network.UplinkOf(about, node)
	switch {
	case err != nil:
		return bad(v1alpha1.ReasonUplinkMissing, err.Error())
	case now.status == nil:
		return bad(v1alpha1.ReasonNodeNotReady, oneLine(now.err))
	case uplink.Interface != "" && uplink.Interface != now.status.Interface:
		return bad(v1alpha1.ReasonUplinkMissing, fmt.Sprintf("the network insists on interface %s, and ktsnd sends by %s; "+
			"start ktsnd with the other one (uplink.interface of the chart), or correct spec.uplinks", uplink.Interface, now.status.Interface))
	case uplink.Type != "" && !strings.EqualFold(uplink.Type, now.status.Uplink):
		return bad(v1alpha1.ReasonUplinkMissing, fmt.Sprintf("the network insists on an uplink of type %s, and that of ktsnd is %s; "+
			"start another ktsnd, or correct type in spec.uplinks", uplink.Type, now.status.Uplink))
	}
	if err := overlay.CheckSwitched(now.status.Uplink, uint32(about.Spec.VNI)); err != nil {
		return bad(v1alpha1.ReasonUplinkMissing, err.Error())
	}
	if err := r.Well(); err != nil {
		return bad(v1alpha1.ReasonNodeNotReady, oneLine(err))
	}
	return metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsAsked}
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// operational says whether ktsnd executes the network's schedule.
func operational(about *v1alpha1.TSNNetwork, now *seen) metav1.Condition {
	is := metav1.Condition{Type: v1alpha1.ConditionScheduleOperational, Status: metav1.ConditionUnknown, Reason: reasonPending}
	var refused *control.Error
	switch {
	case now.status == nil:
		is.Message = oneLine(now.err)
	case errors.As(now.err, &refused):
		is.Status, is.Reason, is.Message = metav1.ConditionFalse, reasonRefused, oneLine(now.err)
	case now.err != nil:
		is.Message = oneLine(now.err)
	case !now.known:
		is.Message = "the operator has not accepted the schedule in the network's spec; what was accepted last stays in force"
	case now.schedule.Table.ConfigPending:
		begins := now.schedule.Table.ConfigChangeTime
		is.Message = fmt.Sprintf("it begins at %d.%09d TAI", begins.Seconds, begins.Nanoseconds)
	case tooSlow(about, now.status.LinkSpeedBps):
		is.Status, is.Reason = metav1.ConditionFalse, reasonLinkTooSlow
		is.Message = fmt.Sprintf("the schedule is made for %s, and the uplink has %s", about.Spec.LinkSpeed,
			schedule.FormatLinkSpeed(now.status.LinkSpeedBps))
	default:
		is.Status, is.Reason = metav1.ConditionTrue, v1alpha1.ReasonAsAsked
	}
	return is
}

func tooSlow(about *v1alpha1.TSNNetwork, speedBps int64) bool {
	wanted, err := schedule.ParseLinkSpeed(about.Spec.LinkSpeed)
	return err == nil && speedBps < wanted
}

// apply writes what is this agent's, and leaves the rest to the operator and the other agents.
func (r *Reconciler) apply(ctx context.Context, name string, status *v1alpha1.NodeStatus) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"nodes": []any{fields}}}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("TSNNetwork"))
	object.SetName(name)
	err = r.Client.Status().Patch(ctx, object, client.Apply, client.FieldOwner("ktsn-agent-"+r.Node), client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("say in the status of network %s what holds here: %w", name, err)
	}
	return nil
}
