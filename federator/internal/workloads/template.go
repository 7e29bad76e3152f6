// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// podMetadata returns the path of the metadata of an object's pods: a pod's own, or that of the pod template; nil if
// the object has no pods.
func podMetadata(object *unstructured.Unstructured) []string {
	if object.GetKind() == "Pod" && object.GetAPIVersion() == "v1" {
		return []string{"metadata"}
	}
	for _, path := range [][]string{{"spec", "template"}, {"spec", "jobTemplate", "spec", "template"}} {
		if _, exists, err := unstructured.NestedMap(object.Object, append(slices.Clone(path), "spec")...); exists && err == nil {
			return append(slices.Clone(path), "metadata")
		}
	}
	return nil
}

// mark labels an object and its pods with their workload, and adds the pods to networks: the requested ones, and those
// in the object's own annotation.
func mark(object *unstructured.Unstructured, workload string, networks []string) error {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[tsn.WorkloadLabel] = workload
	object.SetLabels(labels)
	path := podMetadata(object)
	if path == nil {
		return nil
	}
	if err := unstructured.SetNestedField(object.Object, workload, append(slices.Clone(path), "labels", tsn.WorkloadLabel)...); err != nil {
		return invalid("%s has labels of its pods that cannot be read: %v", describeObject(object), err)
	}
	at := append(slices.Clone(path), "annotations", tsn.NetworkAnnotation)
	owner, _, err := unstructured.NestedString(object.Object, at...)
	if err != nil {
		return invalid("%s has annotations of its pods that cannot be read: %v", describeObject(object), err)
	}
	all := join(owner, object.GetAnnotations()[tsn.NetworkAnnotation], strings.Join(networks, ","))
	if all == "" {
		return nil
	}
	if err := unstructured.SetNestedField(object.Object, all, at...); err != nil {
		return fmt.Errorf("put %s on networks: %w", describeObject(object), err)
	}
	return nil
}

// join merges comma-separated lists without duplicates.
func join(lists ...string) string {
	var words []string
	for _, list := range lists {
		for word := range strings.SplitSeq(list, ",") {
			if word = strings.TrimSpace(word); word != "" && !slices.Contains(words, word) {
				words = append(words, word)
			}
		}
	}
	return strings.Join(words, ",")
}

// hasPods reports whether Karmada judges the health of a kind by its pods.
func hasPods(kind string) bool {
	return slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Pod"}, kind)
}
