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

// unjudged names the objects of a workload that have pods, and of which Karmada does not say whether these are ready, such as virtual machines.
func (p *progress) unjudged() []string {
	var names []string
	for i := range p.works {
		for _, manifest := range p.works[i].Spec.Workload.Manifests {
			object := &unstructured.Unstructured{}
			if object.UnmarshalJSON(manifest.Raw) != nil || hasPods(object.GetKind()) || podMetadata(object) == nil || rests(object) {
				continue
			}
			if name := called(object); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// rests tells whether an object shall have no pods for now.
func rests(object *unstructured.Unstructured) bool {
	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	return object.GetKind() == "CronJob" || spec["suspend"] == true || spec["running"] == false || spec["runStrategy"] == "Halted" || spec["replicas"] == int64(0)
}

// awaitedPods says what is awaited of the pods in a cluster, by what its operator reports; "" if nothing is.
func (p *progress) awaitedPods(names []string, cluster string) string {
	status, has := p.reported(cluster)
	switch {
	case !has:
		return fmt.Sprintf("cluster %s has not said whether the pods of %s are ready, which KuberneTSN there reports", cluster, strings.Join(names, ", "))
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

// reported is what a cluster's operator says of the pods of the workload.
func (p *progress) reported(cluster string) (status tsn.TSNWorkloadStatus, has bool) {
	binding := p.bindings[reportKey(types.NamespacedName{Namespace: p.policy.Namespace, Name: p.policy.Name})]
	if binding == nil || p.leaves(binding, cluster) || !isGiven(binding, cluster) {
		return status, false // what the cluster says is of pods that it had before
	}
	at := slices.IndexFunc(binding.Status.AggregatedStatus, func(item workv1alpha2.AggregatedStatusItem) bool { return item.ClusterName == cluster })
	if at < 0 || !binding.Status.AggregatedStatus[at].Applied || binding.Status.AggregatedStatus[at].Status == nil {
		return status, false
	}
	return status, json.Unmarshal(binding.Status.AggregatedStatus[at].Status.Raw, &status) == nil
}
