// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"context"
	"fmt"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
)

// Works reads the Works of bindings in clusters. A hub has many others.
func Works(ctx context.Context, c client.Reader, clusters, ids []string) ([]workv1alpha1.Work, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	requirement, err := labels.NewRequirement(workv1alpha2.ResourceBindingPermanentIDLabel, selection.In, ids)
	if err != nil {
		return nil, fmt.Errorf("list what clusters have of an object: %w", err)
	}
	var all []workv1alpha1.Work
	for _, cluster := range clusters {
		var works workv1alpha1.WorkList
		if err := c.List(ctx, &works, client.InNamespace(hub.ExecutionNamespace(cluster)), client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*requirement)}); err != nil {
			return nil, fmt.Errorf("list what cluster %s has of an object: %w", cluster, err)
		}
		all = append(all, works.Items...)
	}
	return all, nil
}

// Released reports whether clusters would delete an object if the hub deleted it now, that is, whether all of Karmada's
// objects say that it is not preserved.
func Released(ctx context.Context, c client.Reader, binding *workv1alpha2.ResourceBinding, clusters []string) (bool, error) {
	if ptr.Deref(binding.Spec.PreserveResourcesOnDeletion, false) {
		return false, nil
	}
	id := binding.Labels[workv1alpha2.ResourceBindingPermanentIDLabel]
	if id == "" {
		return true, nil
	}
	works, err := Works(ctx, c, clusters, []string{id})
	if err != nil {
		return false, err
	}
	for i := range works {
		if ptr.Deref(works[i].Spec.PreserveResourcesOnDeletion, false) {
			return false, nil
		}
	}
	return true, nil
}
