// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// Annotations and labels of a hub's objects.
const (
	// manifestAnnotation of a policy has a random value that changes with each deployment of the workload.
	//
	// If a workload is deployed twice at the same time, the second change of the policy fails, and the first caller sees
	// that the policy changed. Readers of policies learn nothing about manifests.
	manifestAnnotation = "federation.kubernetsn.io/manifest"
)

// newPolicy returns the policy of a workload. Clusters keep the objects when the hub deletes them, unless the federator
// has withdrawn that before. So nothing is deleted that nobody asked to delete, for example by an agent that comes back
// after a long time (Karmada's issue 5406). Objects that a cluster has already are not taken over.
func newPolicy(namespace, name string, objects []*unstructured.Unstructured, clusters []string) *policyv1alpha1.PropagationPolicy {
	policy := &policyv1alpha1.PropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
			tsn.WorkloadLabel: name, federation.ManagedBy: federation.Manager,
		}, Annotations: map[string]string{manifestAnnotation: rand.Text()}},
	}
	policy.Spec.ConflictResolution = policyv1alpha1.ConflictAbort
	policy.Spec.PreserveResourcesOnDeletion = ptr.To(true)
	policy.Spec.ResourceSelectors = selectors(objects)
	placeOn(policy, clusters)
	return policy
}

func selectors(objects []*unstructured.Unstructured) []policyv1alpha1.ResourceSelector {
	var all []policyv1alpha1.ResourceSelector
	for _, object := range objects {
		all = append(all, policyv1alpha1.ResourceSelector{
			APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(),
		})
	}
	return all
}

// placedOn returns the clusters of a policy.
func placedOn(policy *policyv1alpha1.PropagationPolicy) []string {
	if affinity := policy.Spec.Placement.ClusterAffinity; affinity != nil {
		return slices.Clone(affinity.ClusterNames)
	}
	return nil
}

func placeOn(policy *policyv1alpha1.PropagationPolicy, clusters []string) {
	sorted := slices.Compact(slices.Sorted(slices.Values(clusters)))
	if policy.Spec.Placement.ClusterAffinity == nil {
		policy.Spec.Placement.ClusterAffinity = &policyv1alpha1.ClusterAffinity{}
	}
	policy.Spec.Placement.ClusterAffinity.ClusterNames = sorted
}

// without returns the clusters that are not among others.
func without(clusters, others []string) []string {
	return slices.DeleteFunc(slices.Clone(clusters), func(cluster string) bool { return slices.Contains(others, cluster) })
}

// preserves reports whether clusters keep the objects when the hub deletes them.
func preserves(policy *policyv1alpha1.PropagationPolicy) bool {
	return ptr.Deref(policy.Spec.PreserveResourcesOnDeletion, false)
}

// readMove returns nil for a workload that never moved.
func readMove(policy *policyv1alpha1.PropagationPolicy) (*federation.Move, error) {
	text := policy.Annotations[federation.MoveAnnotation]
	if text == "" {
		return nil, nil
	}
	var move federation.Move
	if err := json.Unmarshal([]byte(text), &move); err != nil {
		return nil, fmt.Errorf("read annotation %s of policy %s/%s: %w; remove it", federation.MoveAnnotation, policy.Namespace, policy.Name, err)
	}
	return &move, nil
}

func writeMove(policy *policyv1alpha1.PropagationPolicy, move *federation.Move) error {
	text, err := json.Marshal(move)
	if err != nil {
		return fmt.Errorf("record the move of %s/%s: %w", policy.Namespace, policy.Name, err)
	}
	if policy.Annotations == nil {
		policy.Annotations = map[string]string{}
	}
	policy.Annotations[federation.MoveAnnotation] = string(text)
	return nil
}

// isMoving reports whether a move is in progress.
func isMoving(policy *policyv1alpha1.PropagationPolicy) bool {
	move, err := readMove(policy)
	return err == nil && move != nil && !move.IsFinal()
}

func isDeleting(policy *policyv1alpha1.PropagationPolicy) bool {
	return policy.DeletionTimestamp != nil || policy.Annotations[federation.DeletingAnnotation] != ""
}

// find returns the policy of a workload, nil if there is none.
func find(ctx context.Context, c client.Client, namespace, name string) (*policyv1alpha1.PropagationPolicy, error) {
	policy := &policyv1alpha1.PropagationPolicy{}
	err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, policy)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look at workload %s/%s: %w", namespace, name, err)
	case policy.Labels[tsn.WorkloadLabel] != name:
		return nil, hub.Faultf(http.StatusConflict, "PropagationPolicy %s/%s is not of a workload: it was created by somebody else and is not changed; choose another name",
			namespace, name)
	}
	return policy, nil
}

// get returns the policy of a workload. It fails if there is none.
func get(ctx context.Context, c client.Client, namespace, name string) (*policyv1alpha1.PropagationPolicy, error) {
	policy, err := find(ctx, c, namespace, name)
	if err == nil && policy == nil {
		err = notFound(namespace, name)
	}
	return policy, err
}

func notFound(namespace, name string) error {
	return hub.Faultf(http.StatusNotFound, "there is no workload %s/%s; `ktsn fed where` lists them", namespace, name)
}
