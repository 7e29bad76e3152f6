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

// NodeLabels labels the nodes on which there are pods of networks, so that ktsnd and its agent run there. The label
// goes when the last object of such a pod has been gone for a while: kubelet deletes it only after the pod's volumes
// and networks are, and a pod that is replaced finds them there.
type NodeLabels struct {
	Client client.Client
	// Linger is for how long a node keeps the label without a pod.
	Linger time.Duration
	Now    func() time.Time

	// idle is since when nodes have had none. It is the controller's one worker's.
	idle map[string]time.Time
}

// Reconcile looks at one node.
func (l *NodeLabels) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var node corev1.Node
	if err := l.Client.Get(ctx, request.NamespacedName, &node); err != nil {
		delete(l.idle, request.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	needed, err := l.needed(ctx, node.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	labelled := node.Labels[v1alpha1.NodeLabel] == v1alpha1.LabelValue
	if needed {
		delete(l.idle, node.Name)
		if labelled {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, l.label(ctx, &node, `"`+v1alpha1.LabelValue+`"`)
	}
	if !labelled {
		delete(l.idle, node.Name)
		return reconcile.Result{}, nil
	}
	if left := l.lingers(node.Name); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	return reconcile.Result{}, l.label(ctx, &node, "null")
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
				if namespaces, err = l.selected(ctx, name); err != nil {
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

// selected has the namespaces that a network selects. A network that the cache does not have counts as one of all namespaces.
func (l *NodeLabels) selected(ctx context.Context, name string) (namespaceSet, error) {
	network := &v1alpha1.TSNNetwork{}
	err := l.Client.Get(ctx, types.NamespacedName{Name: name}, network, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at network %s: %w", name, err)
	}
	return selected(ctx, l.Client, network)
}

// lingers is for how long a node without pods still keeps its label.
func (l *NodeLabels) lingers(node string) time.Duration {
	if l.idle == nil {
		l.idle = map[string]time.Time{}
	}
	if _, known := l.idle[node]; !known {
		l.idle[node] = l.Now()
	}
	return l.Linger - l.Now().Sub(l.idle[node])
}

func (l *NodeLabels) label(ctx context.Context, node *corev1.Node, value string) error {
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, v1alpha1.NodeLabel, value)
	err := l.Client.Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(patch)))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("label node %s: %w", node.Name, err)
	}
	delete(l.idle, node.Name)
	return nil
}
