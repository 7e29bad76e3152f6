// SPDX-License-Identifier: Apache-2.0

package services

import (
	"context"
	"maps"
	"slices"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
)

// policyName returns the name of a service's policies.
func policyName(service string) string { return "kubernetsn-service-" + service }

func (s *Reconciler) owner(service *tsn.TSNService) *spread.Owner {
	return &spread.Owner{Client: s.Client, Live: s.Live, Object: service, Kind: "TSNService", Label: tsn.ServiceLabel, Value: service.Name, Word: "service"}
}

// write writes the policies: the parts before the placement, so that no cluster gets the service without a part.
func (s *Reconciler) write(ctx context.Context, service *tsn.TSNService, p *plan, v *view) error {
	selectors := []policyv1alpha1.ResourceSelector{spread.Selector("TSNService", service.Namespace, service.Name)}
	before, err := s.owner(service).Adopt(v.override, policyName(service.Name))
	if err != nil {
		return err
	}
	v.override.Spec.ResourceSelectors = selectors
	v.override.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{}
	for _, cluster := range slices.Sorted(maps.Keys(p.shares)) {
		v.override.Spec.OverrideRules = append(v.override.Spec.OverrideRules, p.shares[cluster].fields(service).Rule(cluster))
	}
	if err := spread.Save(ctx, s.Client, before, v.override); err != nil {
		return err
	}
	policy := &policyv1alpha1.PropagationPolicy{}
	// A service of that name that a cluster has created itself is left alone.
	return s.owner(service).Place(ctx, policy, &policy.Spec, policyName(service.Name), selectors, v.clusters, p.selected, policyv1alpha1.ConflictAbort)
}
