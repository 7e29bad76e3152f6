// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
)

// Reconciler spans networks over clusters.
type Reconciler struct {
	Client client.Client
	// Live reads without the cache, because a stale read of the subnets could allocate one twice.
	Live client.Reader
	// NowTAI returns the time in nanoseconds.
	NowTAI func() int64
	Log    *slog.Logger
}

// Reconcile reconciles one network.
func (s *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	network := &tsn.TSNNetwork{}
	if err := s.Client.Get(ctx, request.NamespacedName, network); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if network.Spec.Span == nil || network.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	err := s.reconcile(ctx, network)
	if spread.IsStale(err) {
		return reconcile.Result{RequeueAfter: spread.RetryAfter}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("stretch network %s: %w", network.Name, err)
	}
	return reconcile.Result{}, nil
}

// view is the observed state for one reconciliation.
type view struct {
	networks []tsn.TSNNetwork
	clusters []v1alpha1.Cluster
	override *policyv1alpha1.ClusterOverridePolicy
	reports  map[string]report
	// published are the nodes that are published already.
	published shardsOf
}

func (s *Reconciler) readView(ctx context.Context, name string) (*view, error) {
	var networks tsn.TSNNetworkList
	if err := s.Client.List(ctx, &networks); err != nil {
		return nil, fmt.Errorf("list the networks: %w", err)
	}
	var clusters v1alpha1.ClusterList
	if err := s.Client.List(ctx, &clusters); err != nil {
		return nil, fmt.Errorf("list the clusters: %w", err)
	}
	override := &policyv1alpha1.ClusterOverridePolicy{}
	if err := client.IgnoreNotFound(s.Live.Get(ctx, types.NamespacedName{Name: Name(name)}, override)); err != nil {
		return nil, fmt.Errorf("look at who has which part: %w", err)
	}
	reports, err := readReports(ctx, s.Client, name)
	if err != nil {
		return nil, err
	}
	shardsOf, err := s.readShards(ctx, name)
	return &view{networks: networks.Items, clusters: clusters.Items, override: override, reports: reports, published: shardsOf}, err
}

func (s *Reconciler) reconcile(ctx context.Context, network *tsn.TSNNetwork) error {
	v, err := s.readView(ctx, network.Name)
	if err != nil {
		return err
	}
	p := newPlan(network, v)
	if !spread.Blocked(p.findings) {
		peers, findings := trustedNodes(network, p, v)
		p.findings = append(p.findings, findings...)
		err = s.write(ctx, network, p, v, peers)
	}
	var foreign spread.ForeignError
	if errors.As(err, &foreign) {
		p.findings, err = append(p.findings, spread.Finding{Reason: spread.ReasonForeign, Text: foreign.Error(), Blocks: true}), nil
	}
	if err != nil {
		return err
	}
	return s.updateStatus(ctx, network, p, v)
}

// write writes all objects: the subnets before the placement, so that no cluster gets the network without a subnet.
func (s *Reconciler) write(ctx context.Context, network *tsn.TSNNetwork, p *plan, v *view, peers map[string]map[string]tsn.PeerNode) error {
	if err := s.writeOverride(ctx, network, p, v.override); err != nil {
		return err
	}
	selectors := []policyv1alpha1.ResourceSelector{selector("TSNNetwork", network.Name)}
	// A network of that name that a cluster has created itself is left alone.
	if err := s.writePropagation(ctx, network, v, Name(network.Name), selectors, p.selected, policyv1alpha1.ConflictAbort); err != nil {
		return err
	}
	return s.writePeers(ctx, network, p, v, peers)
}

func (s *Reconciler) writeOverride(ctx context.Context, network *tsn.TSNNetwork, p *plan, override *policyv1alpha1.ClusterOverridePolicy) error {
	if !spread.IsOurs(override, tsn.NetworkLabel, network.Name) {
		return spread.ForeignError{Object: "ClusterOverridePolicy " + override.Name, For: "network"}
	}
	base, schedule := baseTime(network, override, s.NowTAI())
	before := override.DeepCopy()
	if override.ResourceVersion == "" {
		override.ObjectMeta = owned(network, Name(network.Name))
	}
	override.OwnerReferences = owned(network, "").OwnerReferences
	if override.Annotations == nil {
		override.Annotations = map[string]string{}
	}
	delete(override.Annotations, scheduleAnnotation)
	if schedule != "" {
		override.Annotations[scheduleAnnotation] = schedule
	}
	override.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{selector("TSNNetwork", network.Name)}
	override.Spec.OverrideRules = p.overrides(base, network.Spec.IPv6 != nil)
	return spread.Save(ctx, s.Client, before, override)
}

// writePropagation places objects on clusters. Without clusters the policy is deleted.
func (s *Reconciler) writePropagation(ctx context.Context, network *tsn.TSNNetwork, v *view, name string, selectors []policyv1alpha1.ResourceSelector, clusters []string,
	conflict policyv1alpha1.ConflictResolution) error {
	policy := &policyv1alpha1.ClusterPropagationPolicy{}
	if err := client.IgnoreNotFound(s.Live.Get(ctx, types.NamespacedName{Name: name}, policy)); err != nil {
		return fmt.Errorf("look at policy %s: %w", name, err)
	}
	if !spread.IsOurs(policy, tsn.NetworkLabel, network.Name) {
		return spread.ForeignError{Object: "ClusterPropagationPolicy " + name, For: "network"}
	}
	if len(selectors) > 0 {
		clusters = spread.Placeable(v.clusters, selectors[0].Kind, clusters, &policy.Spec)
	}
	if len(clusters) == 0 || len(selectors) == 0 {
		if policy.ResourceVersion == "" {
			return nil
		}
		return client.IgnoreNotFound(s.Client.Delete(ctx, policy))
	}
	before := policy.DeepCopy()
	if policy.ResourceVersion == "" {
		policy.ObjectMeta = owned(network, name)
	}
	policy.OwnerReferences = owned(network, "").OwnerReferences
	spread.Propagate(&policy.Spec, selectors, clusters, conflict)
	return spread.Save(ctx, s.Client, before, policy)
}
