// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
)

// admit says of links of others whether agents may plug them, where that was not said yet. A hub may bring a thousand at once, so several are
// written at a time. What is said holds of one link (UID) as it was looked at (generation); where that has changed, it is looked at again.
func (r *Links) admit(ctx context.Context, all []links.Admission) error {
	// If two links conflict, refuse the loser before the other one may be plugged.
	refused, others := []links.Admission{}, []links.Admission{}
	for _, admission := range all {
		if admission.Refusal != nil {
			refused = append(refused, admission)
		} else {
			others = append(others, admission)
		}
	}
	if err := r.admitAll(ctx, refused); err != nil {
		return err
	}
	return r.admitAll(ctx, others)
}

func (r *Links) admitAll(ctx context.Context, all []links.Admission) error {
	return atOnce(all, func(admission *links.Admission) error {
		err := r.admitOne(ctx, admission)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("say whether agents may plug link %s/%s: %w", admission.Link.Namespace, admission.Link.Name, err)
		}
		return nil
	})
}

func (r *Links) admitOne(ctx context.Context, admission *links.Admission) error {
	link := admission.Link
	conditions := append([]metav1.Condition(nil), link.Status.Conditions...)
	if !meta.SetStatusCondition(&conditions, admitted(admission)) {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(meta.FindStatusCondition(conditions, v1alpha1.ConditionAdmitted))
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{fields}}}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("TSNLink"))
	object.SetNamespace(link.Namespace)
	object.SetName(link.Name)
	object.SetUID(link.UID) // of another link of the name nothing is said
	return r.Client.Status().Patch(ctx, object, client.Apply, fieldOwner, client.ForceOwnership)
}

// admitted is the condition that says so.
func admitted(admission *links.Admission) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsAsked, ObservedGeneration: admission.Link.Generation}
	if admission.Refusal != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, v1alpha1.ReasonServiceForbidden, admission.Refusal.Error()
	}
	return condition
}
