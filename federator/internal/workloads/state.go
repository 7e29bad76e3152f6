// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// Get returns one workload.
func (s *Service) Get(ctx context.Context, namespace, name string) (*federation.Workload, error) {
	policy, err := get(ctx, s.Client, namespace, name)
	if err != nil {
		return nil, err
	}
	bindings, err := bindingsOf(ctx, s.Client, policy)
	if err != nil {
		return nil, err
	}
	return describe(policy, bindings), nil
}

// List returns the workloads of a namespace, or of all.
func (s *Service) List(ctx context.Context, namespace string) (*federation.Workloads, error) {
	all, _, err := s.listed(ctx, namespace)
	return all, err
}

// Reported returns the workloads of a namespace, or of all, and the clusters' reports about their pods.
func (s *Service) Reported(ctx context.Context, namespace string) (*federation.Workloads, Reports, error) {
	all, bindings, err := s.listed(ctx, namespace)
	if err != nil {
		return nil, nil, err
	}
	return all, reportsIn(bindings), nil
}

// listed reads the workloads and Karmada's bindings of their objects.
func (s *Service) listed(ctx context.Context, namespace string) (*federation.Workloads, map[objectKey]*workv1alpha2.ResourceBinding, error) {
	var policies policyv1alpha1.PropagationPolicyList
	var bindings map[objectKey]*workv1alpha2.ResourceBinding
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		if err := s.Lister.List(ctx, &policies, client.InNamespace(namespace), client.HasLabels{tsn.WorkloadLabel}); err != nil {
			return fmt.Errorf("list the workloads: %w", err)
		}
		return nil
	})
	both.Go(func() (err error) {
		bindings, err = listBindings(ctx, s.Lister, namespace)
		return err
	})
	if err := both.Wait(); err != nil {
		return nil, nil, err
	}
	all := &federation.Workloads{Items: []federation.Workload{}}
	for i := range policies.Items {
		all.Items = append(all.Items, *describe(&policies.Items[i], bindings))
	}
	slices.SortFunc(all.Items, func(a, b federation.Workload) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all, bindings, nil
}

// objectKey matches objects and their bindings.
type objectKey struct{ namespace, apiVersion, kind, name string }

// listBindings reads Karmada's bindings of a namespace, or of all.
func listBindings(ctx context.Context, c hub.Lister, namespace string) (map[objectKey]*workv1alpha2.ResourceBinding, error) {
	var list workv1alpha2.ResourceBindingList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list the bindings of the objects: %w", err)
	}
	bindings := make(map[objectKey]*workv1alpha2.ResourceBinding, len(list.Items))
	for i := range list.Items {
		reference := list.Items[i].Spec.Resource
		bindings[objectKey{reference.Namespace, reference.APIVersion, reference.Kind, reference.Name}] = &list.Items[i]
	}
	return bindings, nil
}

// readSingly is up to how many bindings are read one by one; above, all of the namespace are read.
const readSingly = 10

// bindingsOf reads Karmada's bindings of the objects of one workload.
func bindingsOf(ctx context.Context, c client.Reader, policy *policyv1alpha1.PropagationPolicy) (map[objectKey]*workv1alpha2.ResourceBinding, error) {
	if len(policy.Spec.ResourceSelectors) > readSingly {
		return listBindings(ctx, c, policy.Namespace)
	}
	bindings := map[objectKey]*workv1alpha2.ResourceBinding{}
	for _, selector := range policy.Spec.ResourceSelectors {
		binding := &workv1alpha2.ResourceBinding{}
		err := c.Get(ctx, types.NamespacedName{Namespace: policy.Namespace, Name: spread.BindingName(selector.Kind, selector.Name)}, binding)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("read the binding of %s %s: %w", selector.Kind, selector.Name, err)
		}
		bindings[objectKey{policy.Namespace, selector.APIVersion, selector.Kind, selector.Name}] = binding
	}
	return bindings, nil
}

// Describe returns a workload as the API shows it, without the state of its objects.
func Describe(policy *policyv1alpha1.PropagationPolicy) *federation.Workload {
	return describe(policy, nil)
}

func describe(policy *policyv1alpha1.PropagationPolicy, bindings map[objectKey]*workv1alpha2.ResourceBinding) *federation.Workload {
	workload := &federation.Workload{
		Namespace: policy.Namespace, Name: policy.Name, Clusters: placedOn(policy), Objects: []federation.Object{}, Deleting: isDeleting(policy),
	}
	if workload.Clusters == nil {
		workload.Clusters = []string{}
	}
	if move, err := readMove(policy); err != nil {
		workload.Move = &federation.Move{Phase: federation.MoveFailed, Message: err.Error()}
	} else {
		workload.Move = move
	}
	for _, selector := range policy.Spec.ResourceSelectors {
		if selector.Kind == reportKind {
			continue
		}
		object := federation.Object{APIVersion: selector.APIVersion, Kind: selector.Kind, Name: selector.Name, Clusters: []federation.OnCluster{}}
		if binding := bindings[objectKey{policy.Namespace, selector.APIVersion, selector.Kind, selector.Name}]; binding != nil {
			object.Clusters = onClusters(binding)
		}
		workload.Objects = append(workload.Objects, object)
	}
	return workload
}

// onClusters returns the state of an object in each cluster that has it or is to have it.
func onClusters(binding *workv1alpha2.ResourceBinding) []federation.OnCluster {
	known := []federation.OnCluster{}
	for _, item := range binding.Status.AggregatedStatus {
		known = append(known, onCluster(&item))
	}
	for _, target := range binding.Spec.Clusters {
		if !slices.ContainsFunc(known, func(on federation.OnCluster) bool { return on.Cluster == target.Name }) {
			known = append(known, federation.OnCluster{Cluster: target.Name, Health: federation.HealthUnknown})
		}
	}
	slices.SortFunc(known, func(a, b federation.OnCluster) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return known
}

// replicas are the status fields of kinds with pods. DaemonSets use other fields.
type replicas struct {
	Replicas               *int32 `json:"replicas"`
	ReadyReplicas          int32  `json:"readyReplicas"`
	DesiredNumberScheduled *int32 `json:"desiredNumberScheduled"`
	NumberReady            int32  `json:"numberReady"`
}

func onCluster(item *workv1alpha2.AggregatedStatusItem) federation.OnCluster {
	on := federation.OnCluster{
		Cluster: item.ClusterName, Applied: item.Applied, Message: spread.Quoted(item.AppliedMessage), Health: cmp.Or(string(item.Health), federation.HealthUnknown),
	}
	var counted replicas
	if item.Status == nil || json.Unmarshal(item.Status.Raw, &counted) != nil {
		return on
	}
	switch {
	case counted.Replicas != nil:
		on.Replicas, on.Ready = counts(*counted.Replicas, counted.ReadyReplicas)
	case counted.DesiredNumberScheduled != nil:
		on.Replicas, on.Ready = counts(*counted.DesiredNumberScheduled, counted.NumberReady)
	}
	return on
}

// counts returns numbers of pods that a cluster reports, and replaces negative ones.
func counts(replicas, ready int32) (*int32, *int32) {
	replicas, ready = max(replicas, 0), max(ready, 0)
	return &replicas, &ready
}
