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

// Stretcher stretches networks over clusters.
type Stretcher struct {
	Client client.Client
	// Live reads what must not be old: which part is whose.
	Live client.Reader
	// NowTAI is the time in nanoseconds.
	NowTAI func() int64
	Log    *slog.Logger
}

// Reconcile looks at one network.
func (s *Stretcher) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	network := &tsn.TSNNetwork{}
	if err := s.Client.Get(ctx, request.NamespacedName, network); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if network.Spec.Span == nil || network.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	err := s.stretch(ctx, network)
	if spread.IsStale(err) {
		return reconcile.Result{RequeueAfter: spread.AgainAfter}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("stretch network %s: %w", network.Name, err)
	}
	return reconcile.Result{}, nil
}

// view is what is known when a network is looked at.
type view struct {
	networks []tsn.TSNNetwork
	clusters []v1alpha1.Cluster
	override *policyv1alpha1.ClusterOverridePolicy
	reports  map[string]report
	// told are the nodes of which clusters are told already.
	told shardsOf
}

func (s *Stretcher) look(ctx context.Context, name string) (*view, error) {
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
	return &view{networks: networks.Items, clusters: clusters.Items, override: override, reports: reports, told: shardsOf}, err
}

func (s *Stretcher) stretch(ctx context.Context, network *tsn.TSNNetwork) error {
	v, err := s.look(ctx, network.Name)
	if err != nil {
		return err
	}
	p := newPlan(network, v)
	if !spread.Blocked(p.found) {
		peers, findings := trusted(network, p, v)
		p.found = append(p.found, findings...)
		err = s.write(ctx, network, p, v, peers)
	}
	var foreign spread.ForeignError
	if errors.As(err, &foreign) {
		p.found, err = append(p.found, spread.Finding{Reason: spread.ReasonForeign, Text: foreign.Error(), Blocks: true}), nil
	}
	if err != nil {
		return err
	}
	return s.tell(ctx, network, p, v)
}

// write makes all objects: first who has which part, then on which clusters the network is, so that no cluster gets it without a part.
func (s *Stretcher) write(ctx context.Context, network *tsn.TSNNetwork, p *plan, v *view, peers map[string]map[string]tsn.PeerNode) error {
	if err := s.writeOverride(ctx, network, p, v.override); err != nil {
		return err
	}
	selectors := []policyv1alpha1.ResourceSelector{selector("TSNNetwork", network.Name)}
	// A network of that name that a cluster made itself is its own.
	if err := s.writePropagation(ctx, network, v, Name(network.Name), selectors, p.selected, policyv1alpha1.ConflictAbort); err != nil {
		return err
	}
	return s.writePeers(ctx, network, p, v, peers)
}

func (s *Stretcher) writeOverride(ctx context.Context, network *tsn.TSNNetwork, p *plan, override *policyv1alpha1.ClusterOverridePolicy) error {
	if !spread.Ours(override, tsn.NetworkLabel, network.Name) {
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

// writePropagation has objects be on clusters. Without any the policy goes.
func (s *Stretcher) writePropagation(ctx context.Context, network *tsn.TSNNetwork, v *view, name string, selectors []policyv1alpha1.ResourceSelector, clusters []string,
	conflict policyv1alpha1.ConflictResolution) error {
	policy := &policyv1alpha1.ClusterPropagationPolicy{}
	if err := client.IgnoreNotFound(s.Live.Get(ctx, types.NamespacedName{Name: name}, policy)); err != nil {
		return fmt.Errorf("look at policy %s: %w", name, err)
	}
	if !spread.Ours(policy, tsn.NetworkLabel, network.Name) {
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
