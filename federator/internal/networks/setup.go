// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"fmt"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
)

// Add adds the controller to a manager. Networks are reconciled one at a time, because two could want the same range.
func (s *Reconciler) Add(to manager.Manager) error {
	labelled, every := spread.Labelled(tsn.NetworkLabel), spread.Every(s.Client, &tsn.TSNNetworkList{}, s.Log)
	changed := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, spread.Leaving))
	err := ctrl.NewControllerManagedBy(to).Named("networks").For(&tsn.TSNNetwork{}).
		// A network that was deleted or changed may no longer conflict with others.
		Watches(&tsn.TSNNetwork{}, every, changed).
		// Clusters report every few seconds.
		Watches(&v1alpha1.Cluster{}, every, builder.WithPredicates(predicate.Or(predicate.LabelChangedPredicate{}, spread.Leaving, spread.KindsReported))).
		Watches(&workv1alpha2.ClusterResourceBinding{}, spread.Bound("TSNNetwork"), builder.WithPredicates(spread.Reported)).
		Watches(&policyv1alpha1.ClusterOverridePolicy{}, labelled).
		Watches(&policyv1alpha1.ClusterPropagationPolicy{}, labelled).
		Watches(&tsn.TSNPeers{}, labelled).
		Complete(s)
	if err != nil {
		return fmt.Errorf("prepare the networks: %w", err)
	}
	return nil
}
