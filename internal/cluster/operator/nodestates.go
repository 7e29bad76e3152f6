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

// NodeStates writes the spec of each node's TSNNode, which its agent follows.
type NodeStates struct {
	Client client.Client
	shared *shared
	// backoff delays further attempts for a pending node, because each one reads past the cache.
	backoff workqueue.TypedRateLimiter[string]
}

// maxBackoff is the longest delay between attempts for a pending node.
const maxBackoff = 5 * time.Second

func newNodeStates(shared *shared, cluster client.Client) *NodeStates {
	return &NodeStates{
		Client: cluster, shared: shared, backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[string](conflictRetryDelay, maxBackoff),
	}
}

// Reconcile reconciles the TSNNode of one node. It retries what the cache does not have yet.
func (r *NodeStates) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if err := r.shared.waitReady(ctx); err != nil {
		return reconcile.Result{}, err
	}
	pending, err := r.reconcile(ctx, request.Name)
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || err == nil && pending {
		return reconcile.Result{RequeueAfter: r.backoff.When(request.Name)}, nil
	}
	r.backoff.Forget(request.Name)
	return reconcile.Result{}, err
}

// reconcile reports whether something cannot be written to the TSNNode yet.
func (r *NodeStates) reconcile(ctx context.Context, name string) (pending bool, err error) {
	existing, err := getState(ctx, r.Client, name)
	if err != nil {
		return false, err
	}
	var node corev1.Node
	err = r.Client.Get(ctx, types.NamespacedName{Name: name}, &node)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get node %s: %w", name, err)
	}
	deleted := err != nil
	subnets := r.shared.subnets.forNode(name)
	if !deleted {
		if pending, err = r.withholdOccupied(ctx, name, subnets); err != nil {
			return false, err
		}
	}
	if deleted || len(subnets) == 0 && !active(&node) {
		return pending, r.remove(ctx, existing)
	}
	var keys []v1alpha1.ClusterKey
	if existing != nil {
		keys = existing.Spec.ClusterKeys
	}
	spec, err := r.spec(ctx, name, subnets)
	if err != nil {
		return false, err
	}
	spec.ClusterKeys = r.shared.links.forNode(name, keys)
	return pending, r.write(ctx, existing, &node, spec)
}

// withholdOccupied removes subnets that another TSNNode still has, so that no two nodes have the same one even if this operator ends
// in between.
func (r *NodeStates) withholdOccupied(ctx context.Context, name string, subnets map[string]subnet) (pending bool, err error) {
	for network, part := range subnets {
		free := true
		for _, previousOwner := range r.shared.subnets.previousOwnersOf(network, name) {
			occupied, err := r.hasSubnet(ctx, previousOwner, network, part)
			if err != nil {
				return false, err
			}
			free = free && !occupied
		}
		if free {
			r.shared.subnets.clearPreviousOwners(network, name, part)
			continue
		}
		delete(subnets, network)
		pending = true
	}
	return pending, nil
}

// hasSubnet reports whether a TSNNode has a subnet, or one range of it. It reads past the cache, which may not have it yet.
func (r *NodeStates) hasSubnet(ctx context.Context, name, network string, wanted subnet) (bool, error) {
	state, err := getState(ctx, r.shared.live, name)
	nodeNetwork := networkOf(state, network)
	if nodeNetwork == nil {
		return false, err
	}
	assigned, _ := parseSubnet(nodeNetwork.IPv4, nodeNetwork.IPv6) // an invalid subnet belongs to nobody
	return assigned.overlaps(wanted), nil
}

// remove deletes the TSNNode of a node that is gone, or has neither a subnet nor an agent.
func (r *NodeStates) remove(ctx context.Context, existing *v1alpha1.TSNNode) error {
	if existing == nil {
		return nil
	}
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, existing)); err != nil {
		return fmt.Errorf("delete TSNNode %s: %w", existing.Name, err)
	}
	return nil
}

func (r *NodeStates) spec(ctx context.Context, node string, subnets map[string]subnet) (spec *v1alpha1.TSNNodeSpec, err error) {
	var networks v1alpha1.TSNNetworkList
	if err := r.Client.List(ctx, &networks, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the networks: %w", err)
	}
	spec = &v1alpha1.TSNNodeSpec{Gates: scheduleOwner(networks.Items)}
	for _, network := range slices.Sorted(maps.Keys(subnets)) {
		var namespaces namespaceSet
		if object := findNetwork(networks.Items, network); object != nil {
			if namespaces, err = selectedNamespaces(ctx, r.Client, object); err != nil {
				return nil, err
			}
		}
		nodeNetwork := v1alpha1.NodeNetwork{Name: network, Pods: r.shared.pods.onNode(network, node, namespaces)}
		nodeNetwork.IPv4, nodeNetwork.IPv6 = subnets[network].cidrs()
		spec.Networks = append(spec.Networks, nodeNetwork)
	}
	return spec, nil
}

// write creates or updates the TSNNode. Nobody else writes its spec, so it is replaced without a check for conflicts.
func (r *NodeStates) write(ctx context.Context, existing *v1alpha1.TSNNode, node *corev1.Node, spec *v1alpha1.TSNNodeSpec) error {
	owners := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	if existing == nil {
		created := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: owners}, Spec: *spec}
		if err := r.Client.Create(ctx, created, fieldOwner); err != nil {
			return fmt.Errorf("create TSNNode %s: %w", node.Name, err)
		}
		return nil
	}
	if equality.Semantic.DeepEqual(&existing.Spec, spec) && equality.Semantic.DeepEqual(existing.OwnerReferences, owners) {
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
	if err := r.Client.Patch(ctx, existing, client.RawPatch(types.MergePatchType, patch), fieldOwner); err != nil {
		return fmt.Errorf("update TSNNode %s: %w", node.Name, err)
	}
	return nil
}
