// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"context"
	"fmt"
	"slices"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// progress is Karmada's state of a workload, which is read before a policy is changed.
type progress struct {
	policy   *policyv1alpha1.PropagationPolicy
	bindings map[objectKey]*workv1alpha2.ResourceBinding
	works    []workv1alpha1.Work
}

// readProgress reads Karmada's state of a workload.
func readProgress(ctx context.Context, c client.Reader, policy *policyv1alpha1.PropagationPolicy) (*progress, error) {
	bindings, err := bindingsOf(ctx, c, policy)
	if err != nil {
		return nil, err
	}
	p := &progress{policy: policy, bindings: bindings}
	p.works, err = spread.Works(ctx, c, affected(policy), p.ids())
	return p, err
}

// affected returns the clusters on which a workload is, will be or was.
func affected(policy *policyv1alpha1.PropagationPolicy) []string {
	all := placedOn(policy)
	if move, err := readMove(policy); err == nil && move != nil {
		all = append(append(all, move.From...), move.To...)
	}
	return slices.Compact(slices.Sorted(slices.Values(all)))
}

// ids returns Karmada's ids of the bindings of a workload.
func (p *progress) ids() []string {
	var ids []string
	for _, selector := range p.policy.Spec.ResourceSelectors {
		if binding := p.bindingOf(&selector); binding != nil {
			if id := binding.Labels[workv1alpha2.ResourceBindingPermanentIDLabel]; id != "" {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

func (p *progress) bindingOf(selector *policyv1alpha1.ResourceSelector) *workv1alpha2.ResourceBinding {
	return p.bindings[objectKey{p.policy.Namespace, selector.APIVersion, selector.Kind, selector.Name}]
}

// ready reports whether a workload is ready on clusters and its pods are linked, and otherwise what is missing.
func (p *progress) ready(clusters []string) (ok bool, awaited string) {
	for _, selector := range p.policy.Spec.ResourceSelectors {
		if selector.Kind == reportKind {
			continue // a workload also runs in a cluster that does not report
		}
		binding := p.bindingOf(&selector)
		for _, cluster := range clusters {
			if why := awaitedOf(&selector, binding, cluster); why != "" {
				return false, why
			}
			if p.isLeaving(binding, cluster) {
				return false, fmt.Sprintf("cluster %s has not removed the former %s %s yet", cluster, selector.Kind, selector.Name)
			}
		}
	}
	for _, check := range []struct {
		names []string
		why   func(names []string, cluster string) string
	}{{p.withoutHealth(), p.awaitedPods}, {p.clients(), p.awaitedLinks}} {
		for _, cluster := range clusters {
			if why := check.why(check.names, cluster); len(check.names) > 0 && why != "" {
				return false, why
			}
		}
	}
	return true, ""
}

// isLeaving reports whether a cluster has still to remove an earlier object of a binding. Its report is then about that
// object: its agent may be away, and remove the object when it comes back.
func (p *progress) isLeaving(binding *workv1alpha2.ResourceBinding, cluster string) bool {
	id := binding.Labels[workv1alpha2.ResourceBindingPermanentIDLabel]
	return slices.ContainsFunc(p.works, func(work workv1alpha1.Work) bool {
		return work.DeletionTimestamp != nil && work.Namespace == hub.ExecutionNamespace(cluster) && id != "" &&
			work.Labels[workv1alpha2.ResourceBindingPermanentIDLabel] == id
	})
}

// isGiven reports whether Karmada has given an object to a cluster.
func isGiven(binding *workv1alpha2.ResourceBinding, cluster string) bool {
	return slices.ContainsFunc(binding.Spec.Clusters, func(target workv1alpha2.TargetCluster) bool { return target.Name == cluster })
}

func awaitedOf(selector *policyv1alpha1.ResourceSelector, binding *workv1alpha2.ResourceBinding, cluster string) string {
	name := selector.Kind + " " + selector.Name
	if binding == nil {
		return "Karmada has not processed " + name + " yet"
	}
	if !isGiven(binding, cluster) {
		return fmt.Sprintf("Karmada has not sent %s to cluster %s yet", name, cluster)
	}
	at := slices.IndexFunc(binding.Status.AggregatedStatus, func(item workv1alpha2.AggregatedStatusItem) bool { return item.ClusterName == cluster })
	if at < 0 {
		return fmt.Sprintf("cluster %s has not reported %s yet", cluster, name)
	}
	on := onCluster(&binding.Status.AggregatedStatus[at])
	switch {
	case !on.Applied && on.Message != "":
		return fmt.Sprintf("cluster %s rejects %s: %s", cluster, name, on.Message)
	case !on.Applied:
		return fmt.Sprintf("cluster %s has not applied %s yet", cluster, name)
	case on.Health == federation.Healthy, on.Health == federation.HealthUnknown && !hasPods(selector.Kind):
		return ""
	case on.Replicas != nil:
		return fmt.Sprintf("%s has %d of %d pods ready in cluster %s", name, *on.Ready, *on.Replicas, cluster)
	}
	return fmt.Sprintf("%s is not healthy in cluster %s", name, cluster)
}

// released reports whether clusters would remove the workload if Karmada took it from them now: all of Karmada's
// objects must have the policy's current setting.
func (p *progress) released(clusters []string) bool {
	if preserves(p.policy) {
		return false
	}
	for _, selector := range p.policy.Spec.ResourceSelectors {
		if binding := p.bindingOf(&selector); binding != nil && ptr.Deref(binding.Spec.PreserveResourcesOnDeletion, false) {
			return false
		}
	}
	return !slices.ContainsFunc(p.worksIn(clusters), func(work workv1alpha1.Work) bool { return ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false) })
}

// worksIn returns the Works in clusters that are not being deleted.
func (p *progress) worksIn(clusters []string) []workv1alpha1.Work {
	var namespaces []string
	for _, cluster := range clusters {
		namespaces = append(namespaces, hub.ExecutionNamespace(cluster))
	}
	var all []workv1alpha1.Work
	for _, work := range p.works {
		if work.DeletionTimestamp == nil && slices.Contains(namespaces, work.Namespace) {
			all = append(all, work)
		}
	}
	return all
}

// isGone reports whether Karmada has removed the workload from clusters.
func (p *progress) isGone(clusters []string) bool { return len(p.worksIn(clusters)) == 0 }
