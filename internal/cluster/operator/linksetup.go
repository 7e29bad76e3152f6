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

// gatherLinks is for how long events wait for more of them. A client's containers wait for its link, so it is short; how often plans are made is
// bounded by what they take.
const gatherLinks = 10 * time.Millisecond

// addLinks adds the controller. It has one request, for all services.
func addLinks(m manager.Manager, shared *shared, namespace string, switched labels.Selector, reserved []links.Reserved) error {
	look := later(gatherLinks, func(context.Context, client.Object) []string { return []string{"all"} })
	r := newLinks(shared, m.GetClient(), namespace, m.GetEventRecorderFor("ktsn-operator"), switched)
	r.ranges.container = reserved
	return ctrl.NewControllerManagedBy(m).Named("links").
		Watches(&v1alpha1.TSNService{}, look, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.TSNLink{}, look, builder.WithPredicates(linkledger.Matters)).
		Watches(&corev1.Pod{}, look, builder.WithPredicates(podLinks)).
		Watches(&corev1.Node{}, look, builder.WithPredicates(predicate.Or[client.Object](nodeMoves, nodeTurns))).
		Watches(&v1alpha1.TSNNode{}, look, builder.WithPredicates(predicate.Or[client.Object](mtuChanged, keysChanged))).
		Watches(&v1alpha1.TSNNetwork{}, look, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Namespace{}, look, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Complete(r)
}

// switchedSelector reads which nodes have Open vSwitch.
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

// selectedKeys are the labels that a selector looks at.
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

// podLinks leaves out pods without labels of links, and changes of others that change no plan.
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

// nodeTurns leaves out changes of a node after which its kubelet answers as before, and its labels are the same.
var nodeTurns = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
	return nodeReady(before) != nodeReady(after) || !maps.Equal(before.Labels, after.Labels)
}}

// mtuChanged leaves out changes of a TSNNode after which interfaces can have what they could.
var mtuChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return leastOf(e.ObjectOld.(*v1alpha1.TSNNode)) != leastOf(e.ObjectNew.(*v1alpha1.TSNNode))
}}
