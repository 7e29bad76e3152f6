// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// moveInterval is how often a move in progress is checked.
const moveInterval = 500 * time.Millisecond

// maxConcurrentMoves allows for a cluster with hundreds of workloads being drained.
const maxConcurrentMoves = 8

// Mover carries out moves, also after an interruption and for all callers: whoever could write the policy could ask for
// the move that it records.
type Mover struct {
	// Client reads from a cache. A stale read only delays a move: a write of a policy that has changed since fails, and
	// a cluster to which a workload has just come has reported nothing.
	Client client.Client
	Now    func() time.Time
	Log    *slog.Logger
}

// Add adds the controller to a manager.
func (m *Mover) Add(to manager.Manager) error {
	ofWorkloads := predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetAnnotations()[federation.MoveAnnotation] != "" })
	err := ctrl.NewControllerManagedBy(to).Named("moves").For(&policyv1alpha1.PropagationPolicy{}, builder.WithPredicates(ofWorkloads)).
		WithOptions(controller.Options{MaxConcurrentReconciles: maxConcurrentMoves}).Complete(m)
	if err != nil {
		return fmt.Errorf("prepare moves: %w", err)
	}
	return nil
}

// Reconcile carries out the move of one policy.
func (m *Mover) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	policy := &policyv1alpha1.PropagationPolicy{}
	if err := m.Client.Get(ctx, request.NamespacedName, policy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	move, err := readMove(policy)
	if err != nil || move == nil || move.IsFinal() || isDeleting(policy) {
		return reconcile.Result{}, err
	}
	if policy.Spec.PreserveResourcesOnDeletion == nil {
		policy.Spec.PreserveResourcesOnDeletion = ptr.To(false)
	}
	p, err := readProgress(ctx, m.Client, policy)
	if err != nil {
		return reconcile.Result{}, err
	}
	from := move.Phase
	if !advance(policy, move, p, m.Now()) {
		return reconcile.Result{RequeueAfter: moveInterval}, nil
	}
	if err := writeMove(policy, move); err != nil {
		return reconcile.Result{}, err
	}
	err = m.Client.Update(ctx, policy, fieldOwner)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: moveInterval}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("move workload %s: %w", request, err)
	}
	if from != move.Phase {
		m.Log.Info("a workload moves", "workload", request.String(), "phase", move.Phase, "to", move.To, "message", move.Message)
	}
	return reconcile.Result{RequeueAfter: moveInterval}, nil
}
