// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// ClockLabels labels the nodes whose clock is not good enough for a network, so that the scheduler places no more pods of the network
// there (the webhook adds the affinity). A node without an agent gets no label, because nothing would report its clock as good
// again; there tsn-cni keeps pods waiting instead.
type ClockLabels struct {
	Client client.Client
	Now    func() time.Time
	shared *shared
}

// labelWorkers is the number of nodes that are labelled concurrently: a thousand may lose their clocks at once.
const labelWorkers = 8

func addClockLabels(m manager.Manager, shared *shared) error {
	return ctrl.NewControllerManagedBy(m).Named("clock-labels").
		For(&corev1.Node{}, builder.WithPredicates(clockNodeChanged)).
		Watches(&v1alpha1.TSNNode{}, enqueueAfter(0, sameName), builder.WithPredicates(predicate.Or[client.Object](clockChanged, predicate.GenerationChangedPredicate{}))).
		Watches(&v1alpha1.TSNNetwork{}, enqueueAfter(0, allNodes(m.GetClient())), builder.WithPredicates(requirementChanged)).
		WatchesRawSource(source.Func(shared.clocks.start)).
		WithOptions(controller.Options{MaxConcurrentReconciles: labelWorkers}).
		Complete(&ClockLabels{Client: m.GetClient(), Now: time.Now, shared: shared})
}

// clockNodeChanged ignores updates of a node that change neither its labels nor its conditions.
var clockNodeChanged = changed(func(before, after *corev1.Node) bool {
	return !maps.Equal(before.Labels, after.Labels) || !equality.Semantic.DeepEqual(before.Status.Conditions, after.Status.Conditions)
})

// clockChanged ignores updates of a TSNNode that do not change the quality or the source of its clock.
var clockChanged = fieldChanged(clockReport)

// clockReport returns the parts of a node's status about its clock, without those that change all the time.
func clockReport(node *v1alpha1.TSNNode) (reported v1alpha1.TSNNodeStatus) {
	if clock := node.Status.Clock; clock != nil {
		reported.Clock = &v1alpha1.NodeClock{State: clock.State, ErrorBoundNanoseconds: clock.ErrorBoundNanoseconds, Source: clock.Source,
			Grandmaster: clock.Grandmaster, TAIOffset: clock.TAIOffset, LostSince: clock.LostSince}
	}
	for i := range node.Status.Networks {
		if condition := clockOf(node.Status.Networks[i].Conditions); condition.Type != "" {
			reported.Networks = append(reported.Networks, v1alpha1.NodeNetworkStatus{Name: node.Status.Networks[i].Name,
				Conditions: []metav1.Condition{{Status: condition.Status, Reason: condition.Reason}}})
		}
	}
	return reported
}

// requirementChanged ignores updates of a network that do not change spec.clock.
var requirementChanged = fieldChanged(func(network *v1alpha1.TSNNetwork) *v1alpha1.ClockRequirement { return network.Spec.Clock })

// allNodes returns a function that lists the names of all nodes.
func allNodes(reader client.Reader) func(context.Context, client.Object) []string {
	return func(ctx context.Context, _ client.Object) (names []string) {
		for _, node := range listCached(ctx, reader, &corev1.NodeList{}).Items {
			names = append(names, node.Name)
		}
		return names
	}
}

// Reconcile reconciles the clock labels of one node.
func (l *ClockLabels) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if err := l.shared.waitReady(ctx); err != nil {
		return reconcile.Result{}, err
	}
	var node corev1.Node
	if err := l.Client.Get(ctx, request.NamespacedName, &node, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var networks v1alpha1.TSNNetworkList
	if err := l.Client.List(ctx, &networks, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the networks: %w", err)
	}
	state, err := getState(ctx, l.Client, node.Name, client.UnsafeDisableDeepCopy)
	if err != nil {
		return reconcile.Result{}, err
	}
	wanted, recheckAfter := l.desired(&node, state, networks.Items)
	return reconcile.Result{RequeueAfter: recheckAfter}, applyClockLabels(ctx, l.Client, &node, wanted)
}

// desired returns the labels that a node should have, and when to check again without further events; 0 means never.
func (l *ClockLabels) desired(node *corev1.Node, state *v1alpha1.TSNNode, networks []v1alpha1.TSNNetwork) (wanted map[string]bool, recheckAfter time.Duration) {
	wanted = map[string]bool{}
	requiresClock := func(network v1alpha1.TSNNetwork) bool { return network.Spec.Clock != nil }
	if !active(node) || !slices.ContainsFunc(networks, requiresClock) {
		return wanted, 0
	}
	silent, recheckAfter := l.agentSilent(node)
	for i := range networks {
		if !requiresClock(networks[i]) {
			continue
		}
		label := v1alpha1.ClockLabelPrefix + networks[i].Name
		trust := clockTrustOf(&networks[i], state, l.Now())
		if silent || trust == clockLost {
			wanted[label] = true
		}
		if state == nil {
			continue
		}
		recheckAfter = earlier(recheckAfter, remainingHoldover(&networks[i], state.Status.Clock, l.Now()))
	}
	return wanted, recheckAfter
}

// earlier returns the shorter of two delays, where 0 means never.
func earlier(duration, other time.Duration) time.Duration {
	if duration == 0 || other > 0 && other < duration {
		return other
	}
	return duration
}

// agentSilent reports whether a node's kubelet is ready and its agent has been missing for the timeout, so that its clock is unknown. If
// the kubelet is not ready the scheduler places nothing there, and a label would harm: a kubelet that comes back rejects running pods
// whose affinity does not match any more.
func (l *ClockLabels) agentSilent(node *corev1.Node) (silent bool, recheckAfter time.Duration) {
	validity, remaining := l.shared.agents.validity(node.Name)
	if validity != agentMissing {
		return false, remaining
	}
	readyFor := kubeletReadyFor(node, l.Now())
	if readyFor < 0 {
		return false, 0
	}
	remaining = l.shared.agents.remaining(l.Now().Add(-readyFor))
	return remaining == 0, remaining
}

// applyClockLabels sets the wanted clock labels of a node and removes the others.
func applyClockLabels(ctx context.Context, cluster client.Client, node *corev1.Node, wanted map[string]bool) error {
	changes := map[string]any{}
	for label := range node.Labels {
		if strings.HasPrefix(label, v1alpha1.ClockLabelPrefix) && !wanted[label] {
			changes[label] = nil
		}
	}
	for label := range wanted {
		if node.Labels[label] != v1alpha1.ClockLost {
			changes[label] = v1alpha1.ClockLost
		}
	}
	return patchNodeLabels(ctx, cluster, node.Name, changes)
}
