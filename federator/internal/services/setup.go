// SPDX-License-Identifier: Apache-2.0

package services

import (
	"fmt"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/cluster/linkledger"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
)

// Add adds the controller to a manager. Services are reconciled one at a time, because two could want the same range.
func (s *Reconciler) Add(to manager.Manager) error {
	s.failed = map[types.NamespacedName]links.Failures{}
	released := &linkledger.Store{Client: s.Client, Live: s.Live, At: types.NamespacedName{Namespace: s.Namespace, Name: ReleasedName}, Owner: spread.FieldOwner}
	s.ledger = linkledger.New(released, s.Now)
	labelled, every := spread.Labelled(tsn.ServiceLabel), spread.Every(s.Client, &tsn.TSNServiceList{}, s.Log)
	changed := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, spread.Leaving))
	err := ctrl.NewControllerManagedBy(to).Named("services").For(&tsn.TSNService{}, changed).
		// A service or network that was deleted or changed may no longer conflict with others.
		Watches(&tsn.TSNService{}, every, changed).
		Watches(&tsn.TSNNetwork{}, every, changed).
		Watches(&v1alpha1.Cluster{}, every, builder.WithPredicates(predicate.Or(clusterChanged, spread.KindsReported))).
		Watches(&workv1alpha2.ResourceBinding{}, spread.Bound("TSNService"), builder.WithPredicates(spread.Reported)).
		Watches(&policyv1alpha1.OverridePolicy{}, labelled, changed).
		Watches(&policyv1alpha1.PropagationPolicy{}, labelled, changed).
		Watches(&tsn.TSNLink{}, labelled, builder.WithPredicates(predicate.Or(linkledger.PlanChanged, spread.Leaving))).
		Complete(s)
	if err != nil {
		return fmt.Errorf("prepare the services: %w", err)
	}
	return nil
}

// clusterChanged selects updates by which a cluster becomes ready or unready, or begins to leave. Clusters report every
// few seconds.
var clusterChanged = predicate.Funcs{UpdateFunc: func(changed event.UpdateEvent) bool {
	before, ok := changed.ObjectOld.(*v1alpha1.Cluster)
	now, are := changed.ObjectNew.(*v1alpha1.Cluster)
	return !ok || !are || isReady(before) != isReady(now) || hub.Leaving(before) != hub.Leaving(now)
}}

func isReady(cluster *v1alpha1.Cluster) bool {
	return meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterConditionReady)
}
