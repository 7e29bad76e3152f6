// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// NodeLabels labels the nodes with pods on networks, so that ktsnd and its agent run there. It removes the label Linger after the
// last such pod object is gone: kubelet deletes the object only after the pod's volumes and networks, and a replacement pod on the
// same node finds ktsnd still there.
type NodeLabels struct {
	Client client.Client
	// Linger is how long a node keeps the label without a pod.
	Linger time.Duration
	Now    func() time.Time

	// idleSince is when each node lost its last pod. Only the controller's single worker uses it.
	idleSince map[string]time.Time
}

// Reconcile reconciles the label of one node.
func (l *NodeLabels) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var node corev1.Node
	if err := l.Client.Get(ctx, request.NamespacedName, &node); err != nil {
		delete(l.idleSince, request.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	needed, err := l.needed(ctx, node.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	labelled := node.Labels[v1alpha1.NodeLabel] == v1alpha1.LabelValue
	if needed {
		delete(l.idleSince, node.Name)
		if labelled {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, l.label(ctx, node.Name, v1alpha1.LabelValue)
	}
	if !labelled {
		delete(l.idleSince, node.Name)
		return reconcile.Result{}, nil
	}
	if left := l.remainingLinger(node.Name); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	return reconcile.Result{}, l.label(ctx, node.Name, nil)
}

// needed reports whether a pod on the node has links, or is on a network that selects its namespace.
func (l *NodeLabels) needed(ctx context.Context, node string) (bool, error) {
	var pods corev1.PodList
	if err := l.Client.List(ctx, &pods, client.MatchingFields{nodeField: node}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list the pods of node %s: %w", node, err)
	}
	selections := map[string]namespaceSet{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if isMirror(pod) {
			continue
		}
		if links.HasLinkLabel(pod.Labels) {
			return true, nil
		}
		names, err := tsnnetwork.NetworksOf(networksAsked(pod))
		if err != nil {
			continue
		}
		for _, name := range names {
			namespaces, known := selections[name]
			if !known {
				if namespaces, err = l.selectedNamespaces(ctx, name); err != nil {
					return false, err
				}
				selections[name] = namespaces
			}
			if namespaces.has(pod.Namespace) {
				return true, nil
			}
		}
	}
	return false, nil
}

// selectedNamespaces returns the namespaces that a network selects. A network that is not in the cache yet selects all.
func (l *NodeLabels) selectedNamespaces(ctx context.Context, name string) (namespaceSet, error) {
	network := &v1alpha1.TSNNetwork{}
	err := l.Client.Get(ctx, types.NamespacedName{Name: name}, network, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get network %s: %w", name, err)
	}
	return selectedNamespaces(ctx, l.Client, network)
}

// remainingLinger returns how long a node without pods still keeps its label.
func (l *NodeLabels) remainingLinger(node string) time.Duration {
	if l.idleSince == nil {
		l.idleSince = map[string]time.Time{}
	}
	if _, known := l.idleSince[node]; !known {
		l.idleSince[node] = l.Now()
	}
	return l.Linger - l.Now().Sub(l.idleSince[node])
}

func (l *NodeLabels) label(ctx context.Context, node string, value any) error {
	if err := patchNodeLabels(ctx, l.Client, node, map[string]any{v1alpha1.NodeLabel: value}); err != nil {
		return err
	}
	delete(l.idleSince, node)
	return nil
}
