// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// NodeStates writes in each node's TSNNode what its agent shall do.
type NodeStates struct {
	Client client.Client
	shared *shared
	// again is when to look again at a node that waits: ever later, since each look reads past the cache.
	again workqueue.TypedRateLimiter[string]
}

// mostWait is how long a node waits at most until it is looked at again.
const mostWait = 5 * time.Second

func newNodeStates(shared *shared, cluster client.Client) *NodeStates {
	return &NodeStates{
		Client: cluster, shared: shared, again: workqueue.NewTypedItemExponentialFailureRateLimiter[string](againAfter, mostWait),
	}
}

// Reconcile looks at one node. What the cache does not know yet is looked at again.
func (r *NodeStates) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if err := r.shared.ready(ctx); err != nil {
		return reconcile.Result{}, err
	}
	waits, err := r.look(ctx, request.Name)
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || err == nil && waits {
		return reconcile.Result{RequeueAfter: r.again.When(request.Name)}, nil
	}
	r.again.Forget(request.Name)
	return reconcile.Result{}, err
}

// look tells whether there is something of which the node cannot be told yet.
func (r *NodeStates) look(ctx context.Context, name string) (waits bool, err error) {
	var have *v1alpha1.TSNNode
	object := &v1alpha1.TSNNode{}
	err = r.Client.Get(ctx, types.NamespacedName{Name: name}, object)
	switch {
	case err == nil:
		have = object
	case !apierrors.IsNotFound(err):
		return false, fmt.Errorf("look at TSNNode %s: %w", name, err)
	}
	var node corev1.Node
	err = r.Client.Get(ctx, types.NamespacedName{Name: name}, &node)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("look at node %s: %w", name, err)
	}
	gone := err != nil
	parts := r.shared.parts.ofNode(name)
	if !gone {
		if waits, err = r.withhold(ctx, name, parts); err != nil {
			return false, err
		}
	}
	if gone || len(parts) == 0 && !active(&node) {
		return waits, r.remove(ctx, have)
	}
	var keys []v1alpha1.ClusterKey
	if have != nil {
		keys = have.Spec.ClusterKeys
	}
	spec, err := r.spec(ctx, name, parts)
	if err != nil {
		return false, err
	}
	spec.ClusterKeys = r.shared.links.of(name, keys)
	return waits, r.write(ctx, have, &node, spec)
}

// withhold leaves out parts that another TSNNode still has: should this operator end in between, no two nodes have one.
func (r *NodeStates) withhold(ctx context.Context, name string, parts map[string]part) (waits bool, err error) {
	for network, part := range parts {
		free := true
		for _, giver := range r.shared.parts.giversOf(network, name) {
			has, err := r.has(ctx, giver, network, part)
			if err != nil {
				return false, err
			}
			free = free && !has
		}
		if free {
			r.shared.parts.given(network, name, part)
			continue
		}
		delete(parts, network)
		waits = true
	}
	return waits, nil
}

// has tells whether a TSNNode has a part, or a range of it. The cache may not know yet that it was given.
func (r *NodeStates) has(ctx context.Context, name, network string, wanted part) (bool, error) {
	state := &v1alpha1.TSNNode{}
	err := r.shared.live.Get(ctx, types.NamespacedName{Name: name}, state)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("look at TSNNode %s: %w", name, err)
	}
	nodeNetwork := networkOf(state, network)
	if err != nil || nodeNetwork == nil {
		return false, nil
	}
	has, _ := parsePart(nodeNetwork.IPv4, nodeNetwork.IPv6) // what is no part is nobody's
	return has.meets(wanted), nil
}

// remove removes what is of no use any more: its node has gone, or has neither a part nor an agent.
func (r *NodeStates) remove(ctx context.Context, have *v1alpha1.TSNNode) error {
	if have == nil {
		return nil
	}
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, have)); err != nil {
		return fmt.Errorf("remove TSNNode %s: %w", have.Name, err)
	}
	return nil
}

func (r *NodeStates) spec(ctx context.Context, node string, parts map[string]part) (spec *v1alpha1.TSNNodeSpec, err error) {
	var networks v1alpha1.TSNNetworkList
	if err := r.Client.List(ctx, &networks, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the networks: %w", err)
	}
	spec = &v1alpha1.TSNNodeSpec{Gates: owner(networks.Items)}
	for _, network := range slices.Sorted(maps.Keys(parts)) {
		var namespaces namespaceSet
		if object := find(networks.Items, network); object != nil {
			if namespaces, err = selected(ctx, r.Client, object); err != nil {
				return nil, err
			}
		}
		nodeNetwork := v1alpha1.NodeNetwork{Name: network, Pods: r.shared.pods.onNode(network, node, namespaces)}
		nodeNetwork.IPv4, nodeNetwork.IPv6 = parts[network].texts()
		spec.Networks = append(spec.Networks, nodeNetwork)
	}
	return spec, nil
}

// write makes or changes the TSNNode where it is not as it shall be. Nobody else writes its spec, so it is replaced whatever the
// agent has reported meanwhile.
func (r *NodeStates) write(ctx context.Context, have *v1alpha1.TSNNode, node *corev1.Node, spec *v1alpha1.TSNNodeSpec) error {
	owners := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	if have == nil {
		createdNode := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: owners}, Spec: *spec}
		if err := r.Client.Create(ctx, createdNode, fieldOwner); err != nil {
			return fmt.Errorf("make TSNNode %s: %w", node.Name, err)
		}
		return nil
	}
	if equality.Semantic.DeepEqual(&have.Spec, spec) && equality.Semantic.DeepEqual(have.OwnerReferences, owners) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"ownerReferences": owners},
		// A merge patch would leave omitted fields unchanged.
		"spec": map[string]any{"networks": spec.Networks, "gates": spec.Gates, "clusterKeys": spec.ClusterKeys},
	})
	if err != nil {
		return err
	}
	if err := r.Client.Patch(ctx, have, client.RawPatch(types.MergePatchType, patch), fieldOwner); err != nil {
		return fmt.Errorf("change TSNNode %s: %w", node.Name, err)
	}
	return nil
}
