// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"maps"
	"slices"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
)

// Annotations and labels of a hub's objects.
const (
	// scheduleAnnotation of a network's override policy identifies the schedule for which it has a base time.
	scheduleAnnotation = "federation.kubernetsn.io/schedule"
)

func (s *Reconciler) owner(network *tsn.TSNNetwork) *spread.Owner {
	return &spread.Owner{Client: s.Client, Live: s.Live, Object: network, Kind: "TSNNetwork", Label: tsn.NetworkLabel, Value: network.Name, Word: "network"}
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
