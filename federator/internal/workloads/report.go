// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"encoding/json"
	"fmt"
	"slices"

	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// reportKind is the kind of the object in which each cluster's operator reports the pods of a workload.
const reportKind = "TSNWorkload"

// reportKey returns the key of a workload's report.
func reportKey(workload types.NamespacedName) objectKey {
	return objectKey{workload.Namespace, tsn.GroupVersion.String(), reportKind, workload.Name}
}

// withReport adds the report object to a workload with pods. A hub without the kind only knows how many pods there are.
func (s *Service) withReport(workload string, objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	hasPods := slices.ContainsFunc(objects, func(object *unstructured.Unstructured) bool { return podMetadata(object) != nil })
	if !hasPods || slices.ContainsFunc(objects, func(object *unstructured.Unstructured) bool { return object.GetKind() == reportKind }) {
		return objects, nil
	}
	kind := tsn.GroupVersion.WithKind(reportKind)
	if _, err := s.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err != nil {
		if meta.IsNoMatchError(err) {
			return objects, nil
		}
		return nil, fmt.Errorf("look for kind %s: %w", reportKind, err)
	}
	report := &unstructured.Unstructured{}
	report.SetGroupVersionKind(kind)
	report.SetNamespace(objects[0].GetNamespace())
	report.SetName(workload)
	report.SetLabels(map[string]string{tsn.WorkloadLabel: workload})
	return append(objects, report), nil
}

// Reports are the clusters' reports about the pods of workloads, by workload and cluster.
type Reports map[types.NamespacedName]map[string]tsn.TSNWorkloadStatus

// reportsIn reads the reports from Karmada's bindings.
func reportsIn(bindings map[objectKey]*workv1alpha2.ResourceBinding) Reports {
	reports := Reports{}
	for _, binding := range bindings {
		key := types.NamespacedName{Namespace: binding.Spec.Resource.Namespace, Name: binding.Spec.Resource.Name}
		if bindings[reportKey(key)] != binding {
			continue
		}
		reports[key] = map[string]tsn.TSNWorkloadStatus{}
		for _, item := range binding.Status.AggregatedStatus {
			var status tsn.TSNWorkloadStatus
			if item.Applied && item.Status != nil && json.Unmarshal(item.Status.Raw, &status) == nil {
				reports[key][item.ClusterName] = status
			}
		}
	}
	return reports
}
