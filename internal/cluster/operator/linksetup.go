// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/linkledger"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
)

// linkBatchDelay collects events before a plan. It is short because a client's containers wait for its link; the frequency of plans is
// limited by their cost (planCostFactor).
const linkBatchDelay = 10 * time.Millisecond

// addLinks adds the controller. It has a single request for all services.
func addLinks(m manager.Manager, shared *shared, namespace string, switched labels.Selector, reserved []links.Reserved) error {
	enqueue := enqueueAfter(linkBatchDelay, func(context.Context, client.Object) []string { return []string{"all"} })
	r := newLinks(shared, m.GetClient(), namespace, m.GetEventRecorderFor("ktsn-operator"), switched)
	r.ranges.container = reserved
	return ctrl.NewControllerManagedBy(m).Named("links").
		Watches(&v1alpha1.TSNService{}, enqueue, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.TSNLink{}, enqueue, builder.WithPredicates(linkledger.PlanChanged)).
		Watches(&corev1.Pod{}, enqueue, builder.WithPredicates(podLinks)).
		Watches(&corev1.Node{}, enqueue, builder.WithPredicates(predicate.Or[client.Object](nodeAddressChanged, nodeReadinessChanged))).
		Watches(&v1alpha1.TSNNode{}, enqueue, builder.WithPredicates(predicate.Or[client.Object](mtuChanged, keysChanged))).
		Watches(&v1alpha1.TSNNetwork{}, enqueue, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Namespace{}, enqueue, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Complete(r)
}

// switchedSelector parses option --switched-nodes; "" returns nil.
func switchedSelector(text string) (labels.Selector, error) {
	if text == "" {
		return nil, nil
	}
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("--switched-nodes %q is no selector of labels: %w", text, err)
	}
	return selector, nil
}

// selectedKeys returns the label keys of a selector.
func selectedKeys(selector labels.Selector) []string {
	if selector == nil {
		return nil
	}
	var keys []string
	requirements, _ := selector.Requirements()
	for _, requirement := range requirements {
		keys = append(keys, requirement.Key())
	}
	return keys
}

// podLinks ignores pods without link labels, and updates that do not affect a plan.
var podLinks = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return links.HasLinkLabel(e.Object.GetLabels()) },
	DeleteFunc: func(event.DeleteEvent) bool { return true }, // a pod that has lost its labels may still be at the end of a link
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
		if !links.HasLinkLabel(before.Labels) && !links.HasLinkLabel(after.Labels) {
			return false
		}
		return before.UID != after.UID || !maps.Equal(before.Labels, after.Labels) || before.Spec.NodeName != after.Spec.NodeName ||
			podstatus.Ready(before) != podstatus.Ready(after) || ended(before) != ended(after) ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil)
	},
}

// nodeReadinessChanged ignores updates of a node that change neither its readiness nor its labels.
var nodeReadinessChanged = changed(func(before, after *corev1.Node) bool {
	return nodeReady(before) != nodeReady(after) || !maps.Equal(before.Labels, after.Labels)
})

// mtuChanged ignores updates of a TSNNode that do not change the MTU of interfaces.
var mtuChanged = fieldChanged(smallestMTU)
