// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"context"
	"fmt"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
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

// Add adds the controller to a manager. Networks are reconciled one at a time, because two could want the same range.
func (s *Reconciler) Add(to manager.Manager) error {
	labelled := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return requestFor(object.GetLabels()[tsn.NetworkLabel])
	})
	bound := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		if binding, ok := object.(*workv1alpha2.ClusterResourceBinding); ok && binding.Spec.Resource.Kind == "TSNNetwork" {
			return requestFor(binding.Spec.Resource.Name)
		}
		return nil
	})
	every := handler.EnqueueRequestsFromMapFunc(s.allNetworks)
	changed := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, spread.Leaving))
	err := ctrl.NewControllerManagedBy(to).Named("networks").For(&tsn.TSNNetwork{}).
		// A network that was deleted or changed may no longer conflict with others.
		Watches(&tsn.TSNNetwork{}, every, changed).
		// Clusters report every few seconds.
		Watches(&v1alpha1.Cluster{}, every, builder.WithPredicates(predicate.Or(predicate.LabelChangedPredicate{}, spread.Leaving, spread.KindsReported))).
		Watches(&workv1alpha2.ClusterResourceBinding{}, bound, builder.WithPredicates(spread.Reported)).
		Watches(&policyv1alpha1.ClusterOverridePolicy{}, labelled).
		Watches(&policyv1alpha1.ClusterPropagationPolicy{}, labelled).
		Watches(&tsn.TSNPeers{}, labelled).
		Complete(s)
	if err != nil {
		return fmt.Errorf("prepare the networks: %w", err)
	}
	return nil
}

func requestFor(network string) []reconcile.Request {
	if network == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: network}}}
}

// allNetworks returns a request for each network.
func (s *Reconciler) allNetworks(ctx context.Context, _ client.Object) []reconcile.Request {
	var list tsn.TSNNetworkList
	if err := s.Client.List(ctx, &list); err != nil {
		s.Log.Error("the networks cannot be listed", "error", err)
		return nil
	}
	var all []reconcile.Request
	for i := range list.Items {
		all = append(all, requestFor(list.Items[i].Name)...)
	}
	return all
}
