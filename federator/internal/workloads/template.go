// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// podMetadata is where the metadata of an object's pods is: its own of a pod, else that of the template which it has; nil if it has no pods.
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

// mark labels an object and its pods with their workload, and puts the pods on networks: those that were asked for, and those of the
// object's own annotation.
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
		return invalid("%s has labels of its pods that cannot be read: %v", called(object), err)
	}
	at := append(slices.Clone(path), "annotations", tsn.NetworkAnnotation)
	owner, _, err := unstructured.NestedString(object.Object, at...)
	if err != nil {
		return invalid("%s has annotations of its pods that cannot be read: %v", called(object), err)
	}
	all := join(owner, object.GetAnnotations()[tsn.NetworkAnnotation], strings.Join(networks, ","))
	if all == "" {
		return nil
	}
	if err := unstructured.SetNestedField(object.Object, all, at...); err != nil {
		return fmt.Errorf("put %s on networks: %w", called(object), err)
	}
	return nil
}

// join is lists with commas as one, each word once.
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

// hasPods tells kinds whose health Karmada judges by their pods, and which are waited for so.
func hasPods(kind string) bool {
	return slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Pod"}, kind)
}
