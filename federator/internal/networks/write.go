// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"maps"
	"slices"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// scheduleAnnotation of a network's override policy identifies the schedule for which it has a base time.
const scheduleAnnotation = "federation.kubernetsn.io/schedule"

// owned returns the metadata of an object that the network owns.
func owned(network *tsn.TSNNetwork, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Labels: map[string]string{tsn.NetworkLabel: network.Name, federation.ManagedBy: federation.Manager},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: tsn.GroupVersion.String(), Kind: "TSNNetwork", Name: network.Name, UID: network.UID}},
	}
}

// overrides returns the rules that give each cluster its subnet.
func (p *plan) overrides(base *tsn.PTPTime, ipv6 bool) []policyv1alpha1.RuleWithCluster {
	var rules []policyv1alpha1.RuleWithCluster
	for _, cluster := range slices.Sorted(maps.Keys(p.shares)) {
		var fields spread.Fields
		fields.Remove(spanPath)
		fields.Set(ipv4PartPath, p.shares[cluster].ipv4)
		if ipv6 {
			fields.Set(ipv6PartPath, p.shares[cluster].ipv6)
		}
		if p.mtu > 0 {
			fields.Set(mtuPath, p.mtu)
		}
		if base != nil {
			fields.Set(baseTimePath, base)
		}
		rules = append(rules, fields.Rule(cluster))
	}
	return rules
}

// selector selects an object of the federator.
func selector(kind, name string) policyv1alpha1.ResourceSelector {
	return policyv1alpha1.ResourceSelector{APIVersion: tsn.GroupVersion.String(), Kind: kind, Name: name}
}
