// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// objectsThat returns the names of the objects of a workload with pods at present for which a condition holds.
func (p *progress) objectsThat(holds func(*unstructured.Unstructured) bool) []string {
	var names []string
	for i := range p.works {
		for _, manifest := range p.works[i].Spec.Workload.Manifests {
			object := &unstructured.Unstructured{}
			if object.UnmarshalJSON(manifest.Raw) != nil || podMetadata(object) == nil || isScaledToZero(object) || !holds(object) {
				continue
			}
			if name := describeObject(object); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// withoutHealth returns the objects of a workload whose pods' readiness Karmada does not report, such as virtual
// machines.
func (p *progress) withoutHealth() []string {
	return p.objectsThat(func(object *unstructured.Unstructured) bool { return !hasPods(object.GetKind()) })
}

// isScaledToZero reports whether an object has no pods at present, on purpose.
func isScaledToZero(object *unstructured.Unstructured) bool {
	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	return object.GetKind() == "CronJob" || spec["suspend"] == true || spec["running"] == false || spec["runStrategy"] == "Halted" || spec["replicas"] == int64(0)
}

// awaitedPods returns which pods in a cluster are not ready according to its operator, "" if all are.
func (p *progress) awaitedPods(names []string, cluster string) string {
	status, has := p.reported(cluster)
	switch {
	case !has:
		return fmt.Sprintf("cluster %s has not reported whether the pods of %s are ready", cluster, strings.Join(names, ", "))
	case status.Total <= 0:
		return fmt.Sprintf("%s has no pods in cluster %s yet", strings.Join(names, ", "), cluster)
	}
	ready := status.Ready
	for i := range status.Pods {
		if status.Pods[i].Phase == string(corev1.PodSucceeded) {
			ready++
		}
	}
	if ready < status.Total {
		return fmt.Sprintf("%d of %d pods of %s are ready in cluster %s", ready, status.Total, strings.Join(names, ", "), cluster)
	}
	return ""
}

// reported returns the operator's report about the pods of the workload in a cluster.
func (p *progress) reported(cluster string) (status tsn.TSNWorkloadStatus, has bool) {
	binding := p.bindings[reportKey(types.NamespacedName{Namespace: p.policy.Namespace, Name: p.policy.Name})]
	if binding == nil || p.isLeaving(binding, cluster) || !isGiven(binding, cluster) {
		return status, false // the report is about pods of an earlier deployment
	}
	at := slices.IndexFunc(binding.Status.AggregatedStatus, func(item workv1alpha2.AggregatedStatusItem) bool { return item.ClusterName == cluster })
	if at < 0 || !binding.Status.AggregatedStatus[at].Applied || binding.Status.AggregatedStatus[at].Status == nil {
		return status, false
	}
	return status, json.Unmarshal(binding.Status.AggregatedStatus[at].Status.Raw, &status) == nil
}
