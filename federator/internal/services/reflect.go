// SPDX-License-Identifier: Apache-2.0

package services

import (
	"context"
	"fmt"
	"slices"
	"strings"

	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
)

// Reflector copies into each link of the hub the status that the clusters of its ends report. Each cluster has a copy
// of the link, in which its agents write about their own end. Karmada collects both copies, but does not merge kinds
// that it does not know.
type Reflector struct{ Client client.Client }

// Add adds the controller to a manager.
func (r *Reflector) Add(to manager.Manager) error {
	err := ctrl.NewControllerManagedBy(to).Named("links").For(&tsn.TSNLink{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&workv1alpha2.ResourceBinding{}, spread.Bound("TSNLink"), builder.WithPredicates(spread.Reported)).Complete(r)
	if err != nil {
		return fmt.Errorf("prepare the links: %w", err)
	}
	return nil
}

// Reconcile updates the status of one link.
func (r *Reflector) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	link := &tsn.TSNLink{}
	if err := r.Client.Get(ctx, request.NamespacedName, link); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	binding := &workv1alpha2.ResourceBinding{}
	at := types.NamespacedName{Namespace: link.Namespace, Name: spread.BindingName("TSNLink", link.Name)}
	if err := r.Client.Get(ctx, at, binding); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	before := link.DeepCopy()
	reflect(link, spread.Reports[tsn.TSNLinkStatus](&binding.Status))
	if equality.Semantic.DeepEqual(before.Status, link.Status) {
		return reconcile.Result{}, nil
	}
	return spread.Result("update the status of link "+request.String(), 0, r.Client.Status().Update(ctx, link, spread.FieldOwner))
}

// reflect takes the status of each end from the end's cluster. Conditions that a cluster does not report stay unchanged.
func reflect(link *tsn.TSNLink, reports map[string]spread.Report[tsn.TSNLinkStatus]) {
	client, endpoint := reports[link.Spec.Client.Cluster], reports[link.Spec.Endpoint.Cluster]
	if client.HasStatus {
		link.Status.MeasuredMTU, link.Status.Since = 0, client.Status.Since
		if mtu := client.Status.MeasuredMTU; isMTU(mtu) {
			link.Status.MeasuredMTU = mtu
		}
		copyConditions(link, &client.Status, tsn.ConditionClientPlugged, tsn.ConditionUp)
	}
	if endpoint.HasStatus {
		copyConditions(link, &endpoint.Status, tsn.ConditionEndpointPlugged)
	}
	noteRefusal(link, tsn.ConditionClientPlugged, link.Spec.Client.Cluster, &client)
	noteRefusal(link, tsn.ConditionEndpointPlugged, link.Spec.Endpoint.Cluster, &endpoint)
}

// copyConditions sets conditions to those that a cluster reports.
func copyConditions(link *tsn.TSNLink, status *tsn.TSNLinkStatus, kinds ...string) {
	for _, kind := range kinds {
		link.Status.Conditions = slices.DeleteFunc(link.Status.Conditions, func(condition metav1.Condition) bool { return condition.Type == kind })
		if condition := meta.FindStatusCondition(status.Conditions, kind); condition != nil {
			link.Status.Conditions = append(link.Status.Conditions, spread.SanitizeCondition(*condition))
		}
	}
	slices.SortFunc(link.Status.Conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
}

// noteRefusal records why the cluster of an end does not take the link, if the cluster says so and has not reported the
// end yet.
func noteRefusal(link *tsn.TSNLink, kind, cluster string, report *spread.Report[tsn.TSNLinkStatus]) {
	have := meta.FindStatusCondition(link.Status.Conditions, kind)
	if report.Applied || report.Message == "" || have != nil && have.Reason != spread.ReasonWaiting {
		return
	}
	meta.SetStatusCondition(&link.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: spread.ReasonWaiting,
		Message: "cluster " + cluster + " has not applied the link: " + spread.Quoted(report.Message)})
	slices.SortFunc(link.Status.Conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
}
