// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
)

// Clock says how the node's clock is.
type Clock interface {
	// Node is nil as long as nothing can be said. Nobody changes what is in it.
	Node() *v1alpha1.NodeClock
	// Network says whether the clock is good enough for a network with spec.clock; known is false as long as nobody can say.
	Network(name string) (condition metav1.Condition, known bool)
}

// clockSpreadPerNode is by how much reports of another state of the clock are spread for each node: when all of 1000 nodes lose their
// grandmaster, they report it within a second.
const clockSpreadPerNode = time.Millisecond

// clock is what is to be said of the node's clock.
func (r *Reconciler) clock(before *v1alpha1.TSNNodeStatus) *v1alpha1.NodeClock {
	if now := r.Clock.Node(); now != nil {
		return now
	}
	return before.Clock
}

// setClock says whether the clock is good enough for a network. What was said before holds until somebody knows better.
func (r *Reconciler) setClock(status *v1alpha1.NodeNetworkStatus, about *v1alpha1.TSNNetwork) {
	if about.Spec.Clock == nil {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionClockSynchronized)
		return
	}
	condition, known := r.Clock.Network(about.Name)
	switch {
	case known:
		r.set(status, about, condition)
	case meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionClockSynchronized) == nil:
		r.set(status, about, metav1.Condition{
			Type: v1alpha1.ConditionClockSynchronized, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonClockUnknown,
			Message: "the agent has not looked at the clock yet",
		})
	}
}

// ReconcileClock writes that the clock is in another state, apart from all else that is to be said: it does not wait for ktsnd, nor for
// what may pass. It may be called beside Reconcile.
func (r *Reconciler) ReconcileClock(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	state := r.State()
	if state.Unknown != nil {
		return reconcile.Result{RequeueAfter: repeatEvery}, nil
	}
	left, err := r.reportClock(ctx, &state)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: left}, nil
}

// reportClock writes it if it is due; left is when to look again.
func (r *Reconciler) reportClock(ctx context.Context, state *network.Cluster) (left time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.before(state)
	status := r.withClock(state, before)
	now := r.Now()
	switch {
	case sameClock(before, status):
		r.clockDue = time.Time{}
		return repeatEvery, nil
	case r.clockDue.IsZero():
		r.clockDue = now.Add(rand.N(time.Duration(mostNodes(state))*clockSpreadPerNode + 1))
	}
	if left = r.clockDue.Sub(now); left > 0 {
		return left, nil
	}
	if err := r.apply(ctx, status); err != nil {
		return 0, err
	}
	r.said, r.saidAt, r.clockDue = status, now, time.Time{}
	return repeatEvery, nil
}

// withClock is what was said before, with what is to be said of the clock now.
func (r *Reconciler) withClock(state *network.Cluster, before *v1alpha1.TSNNodeStatus) *v1alpha1.TSNNodeStatus {
	after := before.DeepCopy()
	after.Clock = r.clock(before)
	for i := range state.Networks {
		about := state.Networks[i].Object
		if about == nil {
			continue
		}
		at := slices.IndexFunc(after.Networks, func(said v1alpha1.NodeNetworkStatus) bool { return said.Name == about.Name })
		if at >= 0 { // else a first report follows
			r.setClock(&after.Networks[at], about)
		}
	}
	return after
}

// sameClock tells whether two reports say the same of the clock's state.
func sameClock(a, b *v1alpha1.TSNNodeStatus) bool {
	if (a.Clock == nil) != (b.Clock == nil) || a.Clock != nil && a.Clock.State != b.Clock.State {
		return false
	}
	return slices.EqualFunc(a.Networks, b.Networks, func(a, b v1alpha1.NodeNetworkStatus) bool {
		one := meta.FindStatusCondition(a.Conditions, v1alpha1.ConditionClockSynchronized)
		other := meta.FindStatusCondition(b.Conditions, v1alpha1.ConditionClockSynchronized)
		if one == nil || other == nil {
			return one == other
		}
		return one.Status == other.Status && one.Reason == other.Reason
	})
}
