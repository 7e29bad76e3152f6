// SPDX-License-Identifier: Apache-2.0

package services

import (
	"context"
	"fmt"
	"maps"
	"slices"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// policyName returns the name of a service's policies.
func policyName(service string) string { return "kubernetsn-service-" + service }

// owned returns the metadata of an object that the service owns.
func owned(service *tsn.TSNService, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: service.Namespace, Name: name, Labels: labelsOf(service.Name),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: tsn.GroupVersion.String(), Kind: "TSNService", Name: service.Name, UID: service.UID}},
	}
}

func labelsOf(service string) map[string]string {
	return map[string]string{tsn.ServiceLabel: service, federation.ManagedBy: federation.Manager}
}

// selector selects an object of the federator.
func selector(kind string, name types.NamespacedName) policyv1alpha1.ResourceSelector {
	return policyv1alpha1.ResourceSelector{APIVersion: tsn.GroupVersion.String(), Kind: kind, Namespace: name.Namespace, Name: name.Name}
}

// write writes the policies: the parts before the placement, so that no cluster gets the service without a part.
func (s *Reconciler) write(ctx context.Context, service *tsn.TSNService, p *plan, v *view) error {
	if err := s.writeOverride(ctx, service, p, v.override); err != nil {
		return err
	}
	return s.writePropagation(ctx, service, p, v)
}

func (s *Reconciler) writeOverride(ctx context.Context, service *tsn.TSNService, p *plan, override *policyv1alpha1.OverridePolicy) error {
	if !spread.IsOurs(override, tsn.ServiceLabel, service.Name) {
		return spread.ForeignError{Object: "OverridePolicy " + service.Namespace + "/" + override.Name, For: "service"}
	}
	before := override.DeepCopy()
	if override.ResourceVersion == "" {
		override.ObjectMeta = owned(service, policyName(service.Name))
	}
	override.OwnerReferences = owned(service, "").OwnerReferences
	override.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{selector("TSNService", client.ObjectKeyFromObject(service))}
	override.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{}
	for _, cluster := range slices.Sorted(maps.Keys(p.shares)) {
		override.Spec.OverrideRules = append(override.Spec.OverrideRules, p.shares[cluster].fields(service).Rule(cluster))
	}
	return spread.Save(ctx, s.Client, before, override)
}

// writePropagation places a service on its clusters. Without clusters the policy is deleted.
func (s *Reconciler) writePropagation(ctx context.Context, service *tsn.TSNService, p *plan, v *view) error {
	policy := &policyv1alpha1.PropagationPolicy{}
	name := types.NamespacedName{Namespace: service.Namespace, Name: policyName(service.Name)}
	if err := client.IgnoreNotFound(s.Live.Get(ctx, name, policy)); err != nil {
		return fmt.Errorf("look at policy %s: %w", name, err)
	}
	if !spread.IsOurs(policy, tsn.ServiceLabel, service.Name) {
		return spread.ForeignError{Object: "PropagationPolicy " + name.String(), For: "service"}
	}
	clusters := spread.Placeable(v.clusters, "TSNService", p.selected, &policy.Spec)
	if len(clusters) == 0 {
		if policy.ResourceVersion == "" {
			return nil
		}
		return client.IgnoreNotFound(s.Client.Delete(ctx, policy))
	}
	before := policy.DeepCopy()
	if policy.ResourceVersion == "" {
		policy.ObjectMeta = owned(service, name.Name)
	}
	policy.OwnerReferences = owned(service, "").OwnerReferences
	selectors := []policyv1alpha1.ResourceSelector{selector("TSNService", client.ObjectKeyFromObject(service))}
	// A service of that name that a cluster has created itself is left alone.
	spread.Propagate(&policy.Spec, selectors, clusters, policyv1alpha1.ConflictAbort)
	return spread.Save(ctx, s.Client, before, policy)
}
