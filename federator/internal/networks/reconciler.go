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
	return spread.Result("stretch network "+network.Name, 0, s.reconcile(ctx, network))
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
		return nil, fmt.Errorf("read the allocated parts: %w", err)
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
	selectors := []policyv1alpha1.ResourceSelector{spread.Selector("TSNNetwork", "", network.Name)}
	policy := &policyv1alpha1.ClusterPropagationPolicy{}
	// A network of that name that a cluster has created itself is left alone.
	if err := s.owner(network).Place(ctx, policy, &policy.Spec, Name(network.Name), selectors, v.clusters, p.selected, policyv1alpha1.ConflictAbort); err != nil {
		return err
	}
	return s.writePeers(ctx, network, p, v, peers)
}

func (s *Reconciler) writeOverride(ctx context.Context, network *tsn.TSNNetwork, p *plan, override *policyv1alpha1.ClusterOverridePolicy) error {
	before, err := s.owner(network).Adopt(override, Name(network.Name))
	if err != nil {
		return err
	}
	base, schedule := baseTime(network, override, s.NowTAI())
	if override.Annotations == nil {
		override.Annotations = map[string]string{}
	}
	delete(override.Annotations, scheduleAnnotation)
	if schedule != "" {
		override.Annotations[scheduleAnnotation] = schedule
	}
	override.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{spread.Selector("TSNNetwork", "", network.Name)}
	override.Spec.OverrideRules = p.overrides(base, network.Spec.IPv6 != nil)
	return spread.Save(ctx, s.Client, before, override)
}
