// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// ClockLabels labels the nodes whose clock is not good enough for a network, so that the scheduler places no more pods of the network
// there (the webhook gives these the affinity for it). A node without an agent has no such label: a clock that nobody looks at would
// never be said to be good again, and tsn-cni keeps the pod waiting instead.
type ClockLabels struct {
	Client client.Client
	Now    func() time.Time
	shared *shared
}

// labelWorkers is how many nodes are labelled at a time: a thousand may lose their clocks at once.
const labelWorkers = 8

func addClockLabels(m manager.Manager, shared *shared) error {
	eventHandler := later(0, func(_ context.Context, object client.Object) []string { return []string{object.GetName()} })
	return ctrl.NewControllerManagedBy(m).Named("clock-labels").
		For(&corev1.Node{}, builder.WithPredicates(clockNodeChanged)).
		Watches(&v1alpha1.TSNNode{}, eventHandler, builder.WithPredicates(predicate.Or[client.Object](clockChanged, predicate.GenerationChangedPredicate{}))).
		Watches(&v1alpha1.TSNNetwork{}, later(0, everyNode(m.GetClient())), builder.WithPredicates(requirementChanged)).
		WatchesRawSource(source.Func(shared.clocks.start)).
		WithOptions(controller.Options{MaxConcurrentReconciles: labelWorkers}).
		Complete(&ClockLabels{Client: m.GetClient(), Now: time.Now, shared: shared})
}

// clockNodeChanged leaves out changes of a node that say nothing of its labels or of who answers there.
var clockNodeChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
	return !maps.Equal(before.Labels, after.Labels) || !equality.Semantic.DeepEqual(before.Status.Conditions, after.Status.Conditions)
}}

// clockChanged leaves out reports by which a node's clock is as good as it was, and follows what it did.
var clockChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return !equality.Semantic.DeepEqual(clockReport(e.ObjectOld), clockReport(e.ObjectNew))
}}

// clockReport is what a node says of its clock: for each network, and where it has no part of one, by the clock itself.
func clockReport(object client.Object) map[string]string {
	status := &object.(*v1alpha1.TSNNode).Status
	reported := map[string]string{}
	if clock := status.Clock; clock != nil {
		reported[""] = clock.State
		if clock.ErrorBoundNanoseconds != nil {
			reported[""] += fmt.Sprint(" ", *clock.ErrorBoundNanoseconds)
		}
		reported[""] += " " + clock.Source + " " + clock.Grandmaster
		if clock.TAIOffset != nil {
			reported[""] += fmt.Sprint(" ", *clock.TAIOffset)
		}
		if clock.LostSince != nil {
			reported[""] += fmt.Sprint(" since ", clock.LostSince.Unix())
		}
	}
	for i := range status.Networks {
		if condition := meta.FindStatusCondition(status.Networks[i].Conditions, v1alpha1.ConditionClockSynchronized); condition != nil {
			reported[status.Networks[i].Name] = string(condition.Status) + " " + condition.Reason
		}
	}
	return reported
}

// requirementChanged leaves out changes of a network after which it asks of clocks what it did.
var requirementChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*v1alpha1.TSNNetwork), e.ObjectNew.(*v1alpha1.TSNNetwork)
	return !equality.Semantic.DeepEqual(before.Spec.Clock, after.Spec.Clock)
}}

// everyNode names the nodes of a cache.
func everyNode(reader client.Reader) func(context.Context, client.Object) []string {
	return func(ctx context.Context, _ client.Object) []string {
		var all corev1.NodeList
		if err := reader.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
			return nil // of the cache, which has them
		}
		var names []string
		for i := range all.Items {
			names = append(names, all.Items[i].Name)
		}
		return names
	}
}

// Reconcile looks at one node.
func (l *ClockLabels) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if err := l.shared.ready(ctx); err != nil {
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
	var state *v1alpha1.TSNNode
	object := &v1alpha1.TSNNode{}
	switch err := l.Client.Get(ctx, request.NamespacedName, object, client.UnsafeDisableDeepCopy); {
	case err == nil:
		state = object
	case client.IgnoreNotFound(err) != nil:
		return reconcile.Result{}, fmt.Errorf("look at TSNNode %s: %w", node.Name, err)
	}
	wanted, again := l.wanted(&node, state, networks.Items)
	return reconcile.Result{RequeueAfter: again}, relabel(ctx, l.Client, &node, wanted)
}

// wanted are the labels that a node shall have, and when to look again if nothing happens; 0: never.
func (l *ClockLabels) wanted(node *corev1.Node, state *v1alpha1.TSNNode, networks []v1alpha1.TSNNetwork) (wanted map[string]bool, again time.Duration) {
	wanted = map[string]bool{}
	asks := func(network v1alpha1.TSNNetwork) bool { return network.Spec.Clock != nil }
	if !active(node) || !slices.ContainsFunc(networks, asks) {
		return wanted, 0
	}
	silent, again := l.silent(node)
	for i := range networks {
		if !asks(networks[i]) {
			continue
		}
		label := v1alpha1.ClockLabelPrefix + networks[i].Name
		believed := beliefIn(&networks[i], state, l.Now())
		if silent || believed == clockLost {
			wanted[label] = true
		}
		if state == nil {
			continue
		}
		again = sooner(again, holdoverLeft(&networks[i], state.Status.Clock, l.Now()))
	}
	return wanted, again
}

// sooner is the sooner of two times to look again; 0 is never.
func sooner(duration, other time.Duration) time.Duration {
	if duration == 0 || other > 0 && other < duration {
		return other
	}
	return duration
}

// silent tells whether a node answers and its agent does not, for so long that nobody knows how good its clock is. Where the node does
// not answer the scheduler places nothing anyway, and a label would harm: a kubelet that is back refuses pods that it finds running
// where their affinity does not fit any more.
func (l *ClockLabels) silent(node *corev1.Node) (ok bool, again time.Duration) {
	worth, left := l.shared.agents.worth(node.Name)
	if worth != isSilent {
		return false, left
	}
	answers := answersFor(node, l.Now())
	if answers < 0 {
		return false, 0
	}
	left = l.shared.agents.left(l.Now().Add(-answers))
	return left == 0, left
}

// relabel gives a node these labels of clocks and takes the others from it.
func relabel(ctx context.Context, cluster client.Client, node *corev1.Node, wanted map[string]bool) error {
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
	if len(changes) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": changes}})
	if err != nil {
		return err
	}
	about := &corev1.Node{}
	about.Name = node.Name
	err = cluster.Patch(ctx, about, client.RawPatch(types.MergePatchType, patch))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("label node %s: %w", node.Name, err)
	}
	return nil
}
