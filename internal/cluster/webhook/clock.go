// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// avoidLostClocks keeps a pod away from nodes whose clock is not good enough for one of the networks; the operator labels them. A pod
// with a node is not changed: kubelet would reject it permanently, while tsn-cni makes it wait until the clock is good again.
func avoidLostClocks(pod *corev1.Pod, networks []string) {
	if len(networks) == 0 || pod.Spec.NodeName != "" {
		return
	}
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	if pod.Spec.Affinity.NodeAffinity == nil {
		pod.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	affinity := pod.Spec.Affinity.NodeAffinity
	if affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
		requireClock(&affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0], networks)
		return
	}
	// A node must match one of the terms.
	terms := affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		if len(terms[i].MatchExpressions)+len(terms[i].MatchFields) > 0 { // an empty term matches no node
			requireClock(&terms[i], networks)
		}
	}
}

// requireClock adds the missing requirements to a term.
func requireClock(term *corev1.NodeSelectorTerm, networks []string) {
	for _, network := range networks {
		key := v1alpha1.ClockLabelPrefix + network
		exists := slices.ContainsFunc(term.MatchExpressions, func(requirement corev1.NodeSelectorRequirement) bool {
			return requirement.Key == key && requirement.Operator == corev1.NodeSelectorOpNotIn && slices.Contains(requirement.Values, v1alpha1.ClockLost)
		})
		if !exists {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
				Key: key, Operator: corev1.NodeSelectorOpNotIn, Values: []string{v1alpha1.ClockLost},
			})
		}
	}
}
