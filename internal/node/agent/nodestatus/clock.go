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

// Clock is the state of the node's clock.
type Clock interface {
	// Node returns nil while the state is not known. Callers do not change the result.
	Node() *v1alpha1.NodeClock
	// Network returns whether the clock is good enough for a network with spec.clock; known is false while that is not known.
	Network(name string) (condition metav1.Condition, known bool)
}

// clockSpreadPerNode spreads the reports of a change of the clock: if 1000 nodes lose their grandmaster, they report it within a second.
const clockSpreadPerNode = time.Millisecond

// clock returns the state of the node's clock to report.
func (r *Reconciler) clock(before *v1alpha1.TSNNodeStatus) *v1alpha1.NodeClock {
	if now := r.Clock.Node(); now != nil {
		return now
	}
	return before.Clock
}

// setClock sets the condition of the clock. The last one stays while the state is not known.
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

// ReconcileClock writes a change of the clock's state on its own: it waits neither for ktsnd nor for transient problems. It may run
// concurrently with Reconcile.
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

// reportClock writes the change if it is due. left is when to call it again.
func (r *Reconciler) reportClock(ctx context.Context, state *network.Cluster) (left time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.lastStatus(state)
	status := r.withClock(state, before)
	now := r.Now()
	switch {
	case sameClock(before, status):
		r.clockWriteDue = time.Time{}
		return repeatEvery, nil
	case r.clockWriteDue.IsZero():
		r.clockWriteDue = now.Add(rand.N(time.Duration(mostNodes(state))*clockSpreadPerNode + 1))
	}
	if left = r.clockWriteDue.Sub(now); left > 0 {
		return left, nil
	}
	if err := r.apply(ctx, status); err != nil {
		return 0, err
	}
	r.written, r.writtenAt, r.clockWriteDue = status, now, time.Time{}
	return repeatEvery, nil
}

// withClock returns the last status with the present state of the clock.
func (r *Reconciler) withClock(state *network.Cluster, before *v1alpha1.TSNNodeStatus) *v1alpha1.TSNNodeStatus {
	after := before.DeepCopy()
	after.Clock = r.clock(before)
	for i := range state.Networks {
		about := state.Networks[i].Object
		if about == nil {
			continue
		}
		at := slices.IndexFunc(after.Networks, func(s v1alpha1.NodeNetworkStatus) bool { return s.Name == about.Name })
		if at >= 0 { // else a first report follows
			r.setClock(&after.Networks[at], about)
		}
	}
	return after
}

// sameClock reports whether two statuses have the same state of the clock.
func sameClock(a, b *v1alpha1.TSNNodeStatus) bool {
	if (a.Clock == nil) != (b.Clock == nil) || a.Clock != nil && a.Clock.State != b.Clock.State {
		return false
	}
	return slices.EqualFunc(a.Networks, b.Networks, func(a, b v1alpha1.NodeNetworkStatus) bool {
		first := meta.FindStatusCondition(a.Conditions, v1alpha1.ConditionClockSynchronized)
		second := meta.FindStatusCondition(b.Conditions, v1alpha1.ConditionClockSynchronized)
		if first == nil || second == nil {
			return first == second
		}
		return first.Status == second.Status && first.Reason == second.Reason
	})
}
