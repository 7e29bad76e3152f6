// SPDX-License-Identifier: Apache-2.0

package linkledger

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// PlanChanged ignores updates of a link that do not affect a plan.
var PlanChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*v1alpha1.TSNLink), e.ObjectNew.(*v1alpha1.TSNLink)
	if before.UID != after.UID || !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return true
	}
	for _, kind := range []string{v1alpha1.ConditionUp, v1alpha1.ConditionClientPlugged} {
		was, condition := meta.FindStatusCondition(before.Status.Conditions, kind), meta.FindStatusCondition(after.Status.Conditions, kind)
		if (was == nil) != (condition == nil) || was != nil && was.Status != condition.Status {
			return true
		}
	}
	return false
}}
