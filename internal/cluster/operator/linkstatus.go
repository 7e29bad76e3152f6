// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
)

// transientReasons are the reasons of findings that clear by themselves.
var transientReasons = []string{v1alpha1.ReasonNodeWaited, v1alpha1.ReasonChainWaited}

// updateStatus writes the status of services, and an Event for each new finding. requeueAfter is when to write a status that is limited
// by its pace.
func (r *Links) updateStatus(ctx context.Context, in *links.Input, plan *links.Result) (requeueAfter time.Duration, err error) {
	existing := map[string]bool{}
	for i := range in.Pods {
		pod := &in.Pods[i]
		existing[pod.UID] = true
		r.createEvents(pod.UID, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: types.UID(pod.UID)}}, plan.Pods[pod.UID])
	}
	var errs []error
	for i := range in.Services {
		service := &in.Services[i]
		servicePlan := plan.Services[client.ObjectKeyFromObject(service)]
		if servicePlan == nil {
			continue // the service is being deleted
		}
		existing[string(service.UID)] = true
		findings := slices.Clip(servicePlan.Findings)
		if raised := r.raised[client.ObjectKeyFromObject(service)]; raised != "" {
			findings = append(findings, links.Finding{Reason: v1alpha1.ReasonEncryptionBelowMinimum, Text: raised})
		}
		r.createEvents(string(service.UID), service, findings)
		wait, err := r.updateServiceStatus(ctx, service, servicePlan)
		requeueAfter = earlier(requeueAfter, wait)
		errs = append(errs, err)
	}
	maps.DeleteFunc(r.reported, func(uid string, _ map[string]bool) bool { return !existing[uid] })
	return requeueAfter, errors.Join(errs...)
}

// createEvents creates an Event for each finding that was not there in the previous plan.
func (r *Links) createEvents(uid string, object runtime.Object, findings []links.Finding) {
	before := r.reported[uid]
	if len(findings) == 0 {
		delete(r.reported, uid)
		return
	}
	reported := map[string]bool{}
	for _, finding := range findings {
		if slices.Contains(transientReasons, finding.Reason) {
			continue
		}
		if !before[finding.Reason] {
			r.Events.Event(object, corev1.EventTypeWarning, finding.Reason, finding.Text)
		}
		reported[finding.Reason] = true // not the text, whose numbers change
	}
	r.reported[uid] = reported
}

// updateServiceStatus writes the status of a service if it has changed.
func (r *Links) updateServiceStatus(ctx context.Context, service *v1alpha1.TSNService, plan *links.ServicePlan) (wait time.Duration, err error) {
	status := plan.Status
	ready := serviceCondition(service, plan, r.raised[client.ObjectKeyFromObject(service)])
	status.Conditions = slices.Clone(service.Status.Conditions)
	meta.SetStatusCondition(&status.Conditions, ready)
	if equality.Semantic.DeepEqual(service.Status, status) {
		return 0, nil
	}
	key := service.Namespace + "/" + service.Name
	if wait := r.pace.wait(key, writeInterval); wait > 0 {
		return wait, nil
	}
	_, err = applyPart(ctx, r.Client, "TSNService", metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name, UID: service.UID}, "status", &status)
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("write the status of TSNService %s: %w", key, err)
	}
	r.pace.done(key)
	return 0, nil
}

// serviceCondition returns condition Ready of a service. raised is the message if the service's encryption was raised to the minimum.
func serviceCondition(service *v1alpha1.TSNService, plan *links.ServicePlan, raised string) metav1.Condition {
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsAsked,
		Message: "clients get their links", ObservedGeneration: service.Generation}
	if len(plan.Findings) == 0 {
		if raised != "" {
			ready.Reason, ready.Message = v1alpha1.ReasonEncryptionBelowMinimum, ready.Message+"; "+raised
		}
		return ready
	}
	var texts []string
	for _, finding := range plan.Findings {
		texts = append(texts, finding.Text)
	}
	ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, plan.Findings[0].Reason, strings.Join(abbreviate(texts), "; ")
	if raised != "" {
		ready.Message += "; " + raised
	}
	if slices.Contains(transientReasons, ready.Reason) {
		ready.Status = metav1.ConditionUnknown
	}
	return ready
}

// updateAdmissions writes condition Admitted of links that others created: whether agents may plug them. A hub may create a thousand at
// once, so several are written concurrently. The condition is valid for the UID and the generation of the link.
func (r *Links) updateAdmissions(ctx context.Context, all []links.Admission) error {
	// If two links conflict, refuse the loser before the other one may be plugged.
	refused, others := []links.Admission{}, []links.Admission{}
	for _, admission := range all {
		if admission.Refusal != nil {
			refused = append(refused, admission)
		} else {
			others = append(others, admission)
		}
	}
	if err := r.writeAdmissions(ctx, refused); err != nil {
		return err
	}
	return r.writeAdmissions(ctx, others)
}

func (r *Links) writeAdmissions(ctx context.Context, all []links.Admission) error {
	return forEachParallel(ctx, all, func(admission *links.Admission) error {
		err := r.writeAdmission(ctx, admission)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("write whether agents may plug link %s/%s: %w", admission.Link.Namespace, admission.Link.Name, err)
		}
		return nil
	})
}

func (r *Links) writeAdmission(ctx context.Context, admission *links.Admission) error {
	link := admission.Link
	conditions := append([]metav1.Condition(nil), link.Status.Conditions...)
	if !meta.SetStatusCondition(&conditions, admittedCondition(admission)) {
		return nil
	}
	status := &v1alpha1.TSNLinkStatus{Conditions: []metav1.Condition{*meta.FindStatusCondition(conditions, v1alpha1.ConditionAdmitted)}}
	_, err := applyPart(ctx, r.Client, "TSNLink", metav1.ObjectMeta{Namespace: link.Namespace, Name: link.Name, UID: link.UID}, "status", status)
	return err
}

// admittedCondition returns condition Admitted.
func admittedCondition(admission *links.Admission) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsAsked, ObservedGeneration: admission.Link.Generation}
	if admission.Refusal != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, v1alpha1.ReasonServiceForbidden, admission.Refusal.Error()
	}
	return condition
}
