// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// nodeField is the index of pods by their node.
const nodeField = "spec.nodeName"

// AddToScheme makes known all that the operator reads with types.
func AddToScheme(scheme *runtime.Scheme) error {
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	return v1alpha1.AddToScheme(scheme)
}

// Cache is what the operator keeps of a cluster: of pods only those on networks, and of all only what it reads.
func Cache() cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {
				Label:     labels.SelectorFromSet(labels.Set{v1alpha1.PodLabel: v1alpha1.LabelValue}),
				Transform: slimPod,
			},
			&corev1.Node{}: {Transform: slimNode},
		},
	}
}

func slimPod(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields, pod.OwnerReferences = nil, nil
		pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName}
		pod.Status = corev1.PodStatus{}
	}
	return object, nil
}

func slimNode(object any) (any, error) {
	if node, ok := object.(*corev1.Node); ok {
		node.ManagedFields, node.Annotations = nil, nil
		node.Spec, node.Status = corev1.NodeSpec{}, corev1.NodeStatus{}
	}
	return object, nil
}

// Add adds the controllers to a manager.
func Add(ctx context.Context, m manager.Manager, linger time.Duration, nowTAI func() int64) error {
	err := m.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, nodeField, func(object client.Object) []string {
		if name := object.(*corev1.Pod).Spec.NodeName; name != "" {
			return []string{name}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index pods by node: %w", err)
	}
	if err := addNetworks(m, nowTAI); err != nil {
		return fmt.Errorf("watch the networks: %w", err)
	}
	if err := addNodeLabels(m, linger); err != nil {
		return fmt.Errorf("watch the nodes: %w", err)
	}
	return nil
}

func addNetworks(m manager.Manager, nowTAI func() int64) error {
	r := &Networks{
		Client: m.GetClient(), Live: m.GetAPIReader(), Events: m.GetEventRecorderFor("ktsn-operator"), NowTAI: nowTAI,
	}
	every := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		return everyNetwork(ctx, m.GetClient())
	})
	return ctrl.NewControllerManagedBy(m).Named("networks").
		For(&v1alpha1.TSNNetwork{}).
		// One that comes or goes may be in conflict with another.
		Watches(&v1alpha1.TSNNetwork{}, every, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, podsTogether()).
		Watches(&corev1.Node{}, every, builder.WithPredicates(comesOrGoes)).
		Watches(&corev1.Namespace{}, every, builder.WithPredicates(predicate.Or[client.Object](predicate.LabelChangedPredicate{}, comesOrGoes))).
		Complete(r)
}

// comesOrGoes leaves out changes.
var comesOrGoes = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

func everyNetwork(ctx context.Context, reader client.Reader) []reconcile.Request {
	var all v1alpha1.TSNNetworkList
	if err := reader.List(ctx, &all); err != nil {
		return nil // of the cache, which has them
	}
	var requests []reconcile.Request
	for _, network := range all.Items {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: network.Name}})
	}
	return requests
}

func networksOfPod(_ context.Context, object client.Object) []reconcile.Request {
	names, err := tsnnetwork.NetworksOf(object.GetAnnotations()[v1alpha1.NetworkAnnotation])
	if err != nil {
		return nil
	}
	var requests []reconcile.Request
	for _, name := range names {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return requests
}

// gather is for how long pods' events wait for more of them: a thousand pods that are made at once are looked at together,
// and do not take the processor from the webhook.
const gather = 100 * time.Millisecond

// podsTogether has the networks looked at on which a pod is.
func podsTogether() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	soon := func(ctx context.Context, pod client.Object, q queue) {
		for _, request := range networksOfPod(ctx, pod) {
			q.AddAfter(request, gather)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { soon(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { soon(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { soon(ctx, e.Object, q) },
	}
}

func addNodeLabels(m manager.Manager, linger time.Duration) error {
	nodeOfPod := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		name := object.(*corev1.Pod).Spec.NodeName
		if name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
	})
	return ctrl.NewControllerManagedBy(m).Named("node-labels").
		For(&corev1.Node{}, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&corev1.Pod{}, nodeOfPod).
		Complete(&NodeLabels{Client: m.GetClient(), Linger: linger, Now: time.Now})
}
