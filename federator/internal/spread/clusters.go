// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"cmp"
	"slices"
	"strings"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Oldest are the names of clusters, the oldest first.
func Oldest(clusters []v1alpha1.Cluster) []string {
	sorted := slices.SortedFunc(slices.Values(clusters), func(a, b v1alpha1.Cluster) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	var names []string
	for i := range sorted {
		names = append(names, sorted[i].Name)
	}
	return names
}

// Leaving are updates by which an object begins to go.
var Leaving = predicate.Funcs{UpdateFunc: func(changed event.UpdateEvent) bool {
	return (changed.ObjectOld.GetDeletionTimestamp() == nil) != (changed.ObjectNew.GetDeletionTimestamp() == nil)
}}

// Reported are updates by which clusters say something else.
var Reported = predicate.Funcs{UpdateFunc: func(changed event.UpdateEvent) bool {
	before, is := statusOf(changed.ObjectOld)
	now, are := statusOf(changed.ObjectNew)
	return !is || !are || !equality.Semantic.DeepEqual(before.AggregatedStatus, now.AggregatedStatus)
}}

func statusOf(binding any) (*workv1alpha2.ResourceBindingStatus, bool) {
	switch binding := binding.(type) {
	case *workv1alpha2.ClusterResourceBinding:
		return &binding.Status, true
	case *workv1alpha2.ResourceBinding:
		return &binding.Status, true
	}
	return nil, false
}
