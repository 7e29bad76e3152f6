// SPDX-License-Identifier: Apache-2.0

package networks

import (
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
)

// Paths of a TSNNetwork that differ between clusters and the hub.
const (
	spanPath     = "/spec/span"
	ipv4PartPath = "/spec/ipv4/part"
	ipv6PartPath = "/spec/ipv6/part"
	mtuPath      = "/spec/mtu"
	baseTimePath = "/spec/schedule/admin-base-time"
)

// share is a cluster's subnet of a network.
type share struct{ ipv4, ipv6 string }

// sharesOf reads the clusters' subnets from an override policy.
func sharesOf(override *policyv1alpha1.ClusterOverridePolicy) map[string]share {
	shares := map[string]share{}
	for i := range override.Spec.OverrideRules {
		var source share
		rule := &override.Spec.OverrideRules[i]
		cluster := spread.ClusterOf(rule)
		spread.Read(rule, ipv6PartPath, &source.ipv6)
		if spread.Read(rule, ipv4PartPath, &source.ipv4) && cluster != "" {
			shares[cluster] = source
		}
	}
	return shares
}

// mtuOf returns the MTU in an override policy, 0 if none is set.
func mtuOf(override *policyv1alpha1.ClusterOverridePolicy) int32 {
	for i := range override.Spec.OverrideRules {
		var mtu int32
		if spread.Read(&override.Spec.OverrideRules[i], mtuPath, &mtu) {
			return mtu
		}
	}
	return 0
}
