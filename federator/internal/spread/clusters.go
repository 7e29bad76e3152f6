// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"cmp"
	"slices"
	"strings"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// Oldest returns the names of clusters, oldest first.
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

// Leaving selects updates by which the deletion of an object begins.
var Leaving = predicate.Funcs{UpdateFunc: func(changed event.UpdateEvent) bool {
	return (changed.ObjectOld.GetDeletionTimestamp() == nil) != (changed.ObjectNew.GetDeletionTimestamp() == nil)
}}

// Reported selects updates by which the reports of clusters change.
var Reported = predicate.Funcs{UpdateFunc: func(changed event.UpdateEvent) bool {
	_, before, ok := binding(changed.ObjectOld)
	_, now, are := binding(changed.ObjectNew)
	return !ok || !are || !equality.Semantic.DeepEqual(before.AggregatedStatus, now.AggregatedStatus)
}}

// binding returns the parts of a binding of Karmada.
func binding(object any) (*workv1alpha2.ResourceBindingSpec, *workv1alpha2.ResourceBindingStatus, bool) {
	switch binding := object.(type) {
	case *workv1alpha2.ClusterResourceBinding:
		return &binding.Spec, &binding.Status, true
	case *workv1alpha2.ResourceBinding:
		return &binding.Spec, &binding.Status, true
	}
	return nil, nil, false
}

// KindsReported selects updates by which a cluster reports other kinds of KuberneTSN than before.
var KindsReported = predicate.Funcs{UpdateFunc: func(changed event.UpdateEvent) bool {
	before, ok := changed.ObjectOld.(*v1alpha1.Cluster)
	now, are := changed.ObjectNew.(*v1alpha1.Cluster)
	return !ok || !are || !slices.Equal(kindsOf(before), kindsOf(now))
}}

// kindsOf returns the kinds of KuberneTSN that a cluster reports.
func kindsOf(cluster *v1alpha1.Cluster) []v1alpha1.APIResource {
	for _, reported := range cluster.Status.APIEnablements {
		if reported.GroupVersion == tsn.GroupVersion.String() {
			return reported.Resources
		}
	}
	return nil
}

// Lack returns why a cluster cannot get objects of a kind of KuberneTSN, "" if it can.
func Lack(clusters []v1alpha1.Cluster, name, kind string) string {
	at := slices.IndexFunc(clusters, func(cluster v1alpha1.Cluster) bool { return cluster.Name == name })
	if at >= 0 && slices.ContainsFunc(kindsOf(&clusters[at]), func(reported v1alpha1.APIResource) bool { return reported.Kind == kind }) {
		return ""
	}
	return "it does not report the kind " + kind + ", which the chart kubernetsn installs"
}

// Placeable returns the wanted clusters that report a kind or that a policy names already. Karmada's scheduler skips a
// cluster that does not report the kind, and tries again only when a policy, an object, or the labels of a cluster
// change: if a policy named the cluster too early, the object would never get there.
func Placeable(clusters []v1alpha1.Cluster, kind string, wanted []string, policy *policyv1alpha1.PropagationSpec) []string {
	var named []string
	if affinity := policy.Placement.ClusterAffinity; affinity != nil {
		named = affinity.ClusterNames
	}
	return slices.DeleteFunc(slices.Clone(wanted), func(name string) bool { return !slices.Contains(named, name) && Lack(clusters, name, kind) != "" })
}
