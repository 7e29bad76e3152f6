// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
)

// quietReasons are of what is about to be otherwise by itself.
var quietReasons = []string{v1alpha1.ReasonNodeWaited, v1alpha1.ReasonChainWaited}

// tell writes the status of services, and an Event for each sentence that is new. Again is when to write what it is too early for.
func (r *Links) tell(ctx context.Context, in *links.Input, plan *links.Result) (again time.Duration, err error) {
	are := map[string]bool{}
	for i := range in.Pods {
		pod := &in.Pods[i]
		are[pod.UID] = true
		r.event(pod.UID, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: types.UID(pod.UID)}}, plan.Pods[pod.UID])
	}
	var all []error
	for i := range in.Services {
		service := &in.Services[i]
		servicePlan := plan.Services[links.Key{Namespace: service.Namespace, Name: service.Name}]
		if servicePlan == nil {
			continue // it is being deleted
		}
		are[string(service.UID)] = true
		findings := slices.Clip(servicePlan.Found)
		if raised := r.raised[links.Key{Namespace: service.Namespace, Name: service.Name}]; raised != "" {
			findings = append(findings, links.Finding{Reason: v1alpha1.ReasonEncryptionBelowMinimum, Text: raised})
		}
		r.event(string(service.UID), service, findings)
		wait, err := r.status(ctx, service, servicePlan)
		again = sooner(again, wait)
		all = append(all, err)
	}
	r.forgetOthers(are)
	return again, errors.Join(all...)
}

// event makes one for each finding that is new, as long as it is found.
func (r *Links) event(uid string, object runtime.Object, findings []links.Finding) {
	before := r.said[uid]
	if len(findings) == 0 {
		delete(r.said, uid)
		return
	}
	now := map[string]bool{}
	for _, finding := range findings {
		if slices.Contains(quietReasons, finding.Reason) {
			continue
		}
		if !before[finding.Reason] {
			r.Events.Event(object, corev1.EventTypeWarning, finding.Reason, finding.Text)
		}
		now[finding.Reason] = true // by which alone it is new: numbers in the text change
	}
	r.said[uid] = now
}

// status writes that of a service, if it has changed.
func (r *Links) status(ctx context.Context, service *v1alpha1.TSNService, plan *links.ServicePlan) (wait time.Duration, err error) {
	status := plan.Status
	ready := serviceCondition(service, plan, r.raised[links.Key{Namespace: service.Namespace, Name: service.Name}])
	status.Conditions = slices.Clone(service.Status.Conditions)
	meta.SetStatusCondition(&status.Conditions, ready)
	if equality.Semantic.DeepEqual(service.Status, status) {
		return 0, nil
	}
	key := service.Namespace + "/" + service.Name
	if wait := r.pace.wait(key, writeEvery); wait > 0 {
		return wait, nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return 0, err
	}
	object := &unstructured.Unstructured{Object: map[string]any{"status": fields}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("TSNService"))
	object.SetNamespace(service.Namespace)
	object.SetName(service.Name)
	object.SetUID(service.UID)
	err = r.Client.Status().Patch(ctx, object, client.Apply, fieldOwner, client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("write the status of TSNService %s: %w", key, err)
	}
	r.pace.done(key)
	return 0, nil
}

// serviceCondition is Ready. raised says that the service asks for less encryption than it has, "" where it does not.
func serviceCondition(service *v1alpha1.TSNService, plan *links.ServicePlan, raised string) metav1.Condition {
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsAsked,
		Message: "clients get their links", ObservedGeneration: service.Generation}
	if len(plan.Found) == 0 {
		if raised != "" {
			ready.Reason, ready.Message = v1alpha1.ReasonEncryptionBelowMinimum, ready.Message+"; "+raised
		}
		return ready
	}
	var texts []string
	for _, finding := range plan.Found {
		texts = append(texts, finding.Text)
	}
	ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, plan.Found[0].Reason, strings.Join(some(texts), "; ")
	if raised != "" {
		ready.Message += "; " + raised
	}
	if slices.Contains(quietReasons, ready.Reason) {
		ready.Status = metav1.ConditionUnknown
	}
	return ready
}
