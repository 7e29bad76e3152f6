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
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
)

// Reflector writes into each link of the hub what the clusters of its ends say: each has a copy, in which its agents write of their own end.
// Karmada brings both up, and joins those of kinds that it does not know in no way.
type Reflector struct{ Client client.Client }

// Add has a manager run it.
func (r *Reflector) Add(to manager.Manager) error {
	bound := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		if binding, ok := object.(*workv1alpha2.ResourceBinding); ok && binding.Spec.Resource.Kind == "TSNLink" {
			return named(binding.Namespace, binding.Spec.Resource.Name)
		}
		return nil
	})
	err := ctrl.NewControllerManagedBy(to).Named("links").For(&tsn.TSNLink{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&workv1alpha2.ResourceBinding{}, bound, builder.WithPredicates(spread.Reported)).Complete(r)
	if err != nil {
		return fmt.Errorf("prepare the links: %w", err)
	}
	return nil
}

// Reconcile looks at one link.
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
	err := r.Client.Status().Update(ctx, link, spread.FieldOwner)
	if spread.IsStale(err) {
		return reconcile.Result{RequeueAfter: spread.AgainAfter}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("say how link %s is: %w", request, err)
	}
	return reconcile.Result{}, nil
}

// reflect takes of each end's cluster what is of that end. What a cluster does not say stays as it was.
func reflect(link *tsn.TSNLink, reports map[string]spread.Report[tsn.TSNLinkStatus]) {
	client, endpoint := reports[link.Spec.Client.Cluster], reports[link.Spec.Endpoint.Cluster]
	if client.Told {
		link.Status.MeasuredMTU, link.Status.Since = 0, client.Status.Since
		if mtu := client.Status.MeasuredMTU; isMTU(mtu) {
			link.Status.MeasuredMTU = mtu
		}
		take(link, &client.Status, tsn.ConditionClientPlugged, tsn.ConditionUp)
	}
	if endpoint.Told {
		take(link, &endpoint.Status, tsn.ConditionEndpointPlugged)
	}
	refused(link, tsn.ConditionClientPlugged, link.Spec.Client.Cluster, &client)
	refused(link, tsn.ConditionEndpointPlugged, link.Spec.Endpoint.Cluster, &endpoint)
}

// take has conditions be as a cluster says.
func take(link *tsn.TSNLink, status *tsn.TSNLinkStatus, kinds ...string) {
	for _, kind := range kinds {
		link.Status.Conditions = slices.DeleteFunc(link.Status.Conditions, func(condition metav1.Condition) bool { return condition.Type == kind })
		if condition := meta.FindStatusCondition(status.Conditions, kind); condition != nil {
			link.Status.Conditions = append(link.Status.Conditions, spread.Said(*condition))
		}
	}
	slices.SortFunc(link.Status.Conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
}

// refused says of an end of which nothing was heard yet why its cluster does not take the link, if it says so.
func refused(link *tsn.TSNLink, kind, cluster string, report *spread.Report[tsn.TSNLinkStatus]) {
	have := meta.FindStatusCondition(link.Status.Conditions, kind)
	if report.Applied || report.Message == "" || have != nil && have.Reason != spread.ReasonWaiting {
		return
	}
	meta.SetStatusCondition(&link.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: spread.ReasonWaiting,
		Message: "cluster " + cluster + " has not taken the link: " + spread.Quoted(report.Message)})
	slices.SortFunc(link.Status.Conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
}
