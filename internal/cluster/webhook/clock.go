// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// avoidLost keeps a pod from nodes whose clock is not good enough for one of these networks, which the operator labels. A pod that has
// its node already is left alone: kubelet would refuse it for good, where tsn-cni has it wait until the clock is good again.
func avoidLost(pod *corev1.Pod, networks []string) {
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
		addNotLost(&affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0], networks)
		return
	}
	// A node has to meet one of them.
	terms := affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		if len(terms[i].MatchExpressions)+len(terms[i].MatchFields) > 0 { // no node meets an empty one
			addNotLost(&terms[i], networks)
		}
	}
}

// addNotLost adds to a term what is not in it yet.
func addNotLost(term *corev1.NodeSelectorTerm, networks []string) {
	for _, network := range networks {
		key := v1alpha1.ClockLabelPrefix + network
		there := slices.ContainsFunc(term.MatchExpressions, func(requirement corev1.NodeSelectorRequirement) bool {
			return requirement.Key == key && requirement.Operator == corev1.NodeSelectorOpNotIn && slices.Contains(requirement.Values, v1alpha1.ClockLost)
		})
		if !there {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
				Key: key, Operator: corev1.NodeSelectorOpNotIn, Values: []string{v1alpha1.ClockLost},
			})
		}
	}
}

// affinity finds what avoidLost may have added. Before is the pod as it came.
func (p *patch) affinity(before, after *corev1.Affinity) {
	const at = "/spec/affinity"
	const required = at + "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"
	switch {
	case after == nil || after.NodeAffinity == nil || after.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil:
	case before == nil:
		p.add(at, after)
	case before.NodeAffinity == nil:
		p.add(at+"/nodeAffinity", after.NodeAffinity)
	case before.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil:
		p.add(required, after.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	default:
		was := before.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		terms := after.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		for i := range was {
			tail(p, fmt.Sprintf("%s/nodeSelectorTerms/%d/matchExpressions", required, i), was[i].MatchExpressions, terms[i].MatchExpressions)
		}
	}
}
