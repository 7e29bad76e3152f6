// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
)

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
