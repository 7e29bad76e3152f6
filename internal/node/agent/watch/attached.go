// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/repeat"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// Attached sets the condition kubernetsn.io/attached of the node's pods.
type Attached struct {
	// Client reads the pods of this node, and writes their conditions.
	Client client.Client
	// Interfaces lists the node's attachments.
	Interfaces func() ([]attachment.Attached, error)
	Events     record.EventRecorder
	Now        func() time.Time

	// lacking has the times since which pods lack an interface.
	lacking map[types.UID]time.Time
}

// lackingFor is how long a pod lacks an interface before its condition says so: a new sandbox replaces one that has ended within seconds.
const lackingFor = 3 * time.Second

// Reconcile sets the conditions of all pods, whatever the request.
func (a *Attached) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var pods corev1.PodList
	// The objects belong to the cache and are not modified.
	if err := a.Client.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the node's pods: %w", err)
	}
	interfaces, err := a.Interfaces()
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("list the node's interfaces: %w", err)
	}
	byPod := map[string][]attachment.Attached{}
	for _, attached := range interfaces {
		byPod[attached.Identity] = append(byPod[attached.Identity], attached)
	}
	var errs error
	before, after := a.lacking, repeat.Every
	a.lacking = map[types.UID]time.Time{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		networks, _ := tsnnetwork.NetworksOf(pod.Annotations[v1alpha1.NetworkAnnotation]) // none without the annotation
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if len(networks) == 0 || ended || pod.DeletionTimestamp != nil {
			continue
		}
		wanted := attachedCondition(pod, networks, byPod[string(pod.UID)])
		if wanted.Status == corev1.ConditionFalse {
			since, known := before[pod.UID]
			if !known {
				since = a.Now()
			}
			if a.lacking[pod.UID] = since; a.Now().Sub(since) < lackingFor {
				after = lackingFor
				continue
			}
		}
		errs = errors.Join(errs, a.setCondition(ctx, pod, wanted))
	}
	return reconcile.Result{RequeueAfter: after}, errs
}

// setCondition writes the condition of a pod if it has changed.
func (a *Attached) setCondition(ctx context.Context, pod *corev1.Pod, wanted corev1.PodCondition) error {
	before := podstatus.Attached(pod)
	switch {
	case before == nil && wanted.Status == corev1.ConditionFalse && pod.Status.PodIP == "":
		return nil // the runtime is attaching it
	case before != nil && before.Status == wanted.Status && before.Reason == wanted.Reason && before.Message == wanted.Message:
		return nil
	}
	wanted.LastTransitionTime = metav1.NewTime(a.Now())
	if before != nil && before.Status == wanted.Status {
		wanted.LastTransitionTime = before.LastTransitionTime
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, // refuses another pod of the name
		"status":   map[string]any{"conditions": []corev1.PodCondition{wanted}},
	})
	if err != nil {
		return err
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err = a.Client.Status().Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, patch))
	if err != nil {
		return client.IgnoreNotFound(fmt.Errorf("set the condition %s of pod %s/%s: %w", wanted.Type, pod.Namespace, pod.Name, err))
	}
	if wanted.Status == corev1.ConditionFalse {
		a.Events.Event(pod, corev1.EventTypeWarning, ReasonNoInterface, wanted.Message)
	}
	return nil
}

// attachedCondition returns the condition of a pod that names the networks and has these interfaces.
func attachedCondition(pod *corev1.Pod, networks []string, interfaces []attachment.Attached) corev1.PodCondition {
	condition := corev1.PodCondition{Type: v1alpha1.ConditionAttached, Status: corev1.ConditionTrue, Reason: v1alpha1.ReasonAsAsked}
	lacking := slices.DeleteFunc(slices.Clone(networks), func(name string) bool {
		return slices.ContainsFunc(interfaces, func(i attachment.Attached) bool { return i.Network == name && i.Present && !i.Ended })
	})
	if len(lacking) == 0 {
		return condition
	}
	byMultus := map[string]bool{}
	for _, network := range podstatus.Networks(pod) {
		byMultus[network.Network] = network.Interface != ""
	}
	var cause string
	switch {
	case pod.Annotations[podstatus.MultusAnnotation] == "":
		condition.Reason = v1alpha1.ReasonMultusPassedBy
		cause = "the runtime made the pod's sandbox without Multus, which was not running or is not the first configuration in the node's /etc/cni/net.d; " +
			"correct that, and delete the pod so that it is recreated"
	case slices.ContainsFunc(lacking, func(name string) bool { return !byMultus[name] }):
		condition.Reason = v1alpha1.ReasonNotAttached
		cause = "Multus did not attach it; see the log of Multus, and delete the pod so that it is recreated"
	default:
		condition.Reason = v1alpha1.ReasonDetached
		cause = "the interface was removed while the pod runs, or its sandbox was made again without Multus; delete the pod so that it is recreated"
	}
	condition.Status = corev1.ConditionFalse
	condition.Message = fmt.Sprintf("The annotation %s names network %s, and the pod has no interface there: %s", v1alpha1.NetworkAnnotation,
		strings.Join(lacking, ", "), cause)
	return condition
}
