// SPDX-License-Identifier: Apache-2.0

package services

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/cluster/linkledger"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// Reconciler places services on clusters and links their pods.
type Reconciler struct {
	Client client.Client
	// Live reads without the cache, because a stale read of the parts could allocate one twice.
	Live client.Reader
	// Namespace is the namespace of the record of released links.
	Namespace string
	Now       func() time.Time
	// Events records events about links at their service.
	Events events.EventRecorder
	Log    *slog.Logger

	// The fields below belong to the controller's single worker.

	// failed are pairs of pods between which links did not come up.
	failed map[types.NamespacedName]links.Failures
	ledger *linkledger.Ledger
}

// Reconcile reconciles one service.
func (s *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	service := &tsn.TSNService{}
	err := s.Client.Get(ctx, request.NamespacedName, service)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("look at service %s: %w", request, err)
	}
	var again time.Duration
	if err != nil || service.DeletionTimestamp != nil {
		delete(s.failed, request.NamespacedName)
		again, err = s.deleteAllLinks(ctx, request.NamespacedName)
	} else {
		again, err = s.reconcile(ctx, service)
	}
	return spread.Result("have service "+request.String()+" be on clusters", again, err)
}

// view is the observed state for one reconciliation.
type view struct {
	services []tsn.TSNService
	networks []tsn.TSNNetwork
	clusters []v1alpha1.Cluster
	override *policyv1alpha1.OverridePolicy
	reports  map[string]report
	// links are all links of the federator; nodes are the clusters of node addresses according to the networks.
	links []tsn.TSNLink
	nodes map[string]string
	// released are links that were deleted recently; replaced maps their names to their clients.
	released []tsn.TSNLink
	replaced map[string]bool
}

// silence returns how long the hub has not received reports of a cluster, 0 if it receives them.
func (v *view) silence(cluster string, now time.Time) time.Duration {
	for i := range v.clusters {
		if candidate := &v.clusters[i]; candidate.Name == cluster {
			since := candidate.CreationTimestamp.Time
			if ready := meta.FindStatusCondition(candidate.Status.Conditions, v1alpha1.ClusterConditionReady); ready != nil {
				if ready.Status == metav1.ConditionTrue {
					return 0
				}
				since = ready.LastTransitionTime.Time
			}
			return max(now.Sub(since), 1)
		}
	}
	return silenceTimeout
}

// report is the report of a cluster about a service.
type report = spread.Report[tsn.TSNServiceStatus]

func (s *Reconciler) readView(ctx context.Context, service *tsn.TSNService) (*view, error) {
	var services tsn.TSNServiceList
	if err := s.Client.List(ctx, &services); err != nil {
		return nil, fmt.Errorf("list the services: %w", err)
	}
	var networks tsn.TSNNetworkList
	if err := s.Client.List(ctx, &networks); err != nil {
		return nil, fmt.Errorf("list the networks: %w", err)
	}
	var clusters v1alpha1.ClusterList
	if err := s.Client.List(ctx, &clusters); err != nil {
		return nil, fmt.Errorf("list the clusters: %w", err)
	}
	override := &policyv1alpha1.OverridePolicy{}
	at := types.NamespacedName{Namespace: service.Namespace, Name: policyName(service.Name)}
	if err := client.IgnoreNotFound(s.Live.Get(ctx, at, override)); err != nil {
		return nil, fmt.Errorf("read the allocated parts: %w", err)
	}
	binding := &workv1alpha2.ResourceBinding{}
	at.Name = spread.BindingName("TSNService", service.Name)
	if err := client.IgnoreNotFound(s.Client.Get(ctx, at, binding)); err != nil {
		return nil, fmt.Errorf("read the reports of clusters: %w", err)
	}
	var peers tsn.TSNPeersList
	if err := s.Client.List(ctx, &peers, client.MatchingLabels{federation.ManagedBy: federation.Manager}); err != nil {
		return nil, fmt.Errorf("list the peers: %w", err)
	}
	links, released, err := s.allLinks(ctx)
	if err != nil {
		return nil, err
	}
	return &view{
		links: links, released: released, replaced: s.ledger.Clients(), nodes: nodesOf(peers.Items, clusters.Items), services: services.Items, networks: networks.Items, clusters: clusters.Items, override: override,
		reports: spread.Reports[tsn.TSNServiceStatus](&binding.Status),
	}, nil
}

// nodesOf returns the clusters of node addresses. Clusters that are no longer members do not reserve addresses.
func nodesOf(all []tsn.TSNPeers, members []v1alpha1.Cluster) map[string]string {
	clusters := map[string]string{}
	for i := range all {
		cluster := all[i].Spec.Cluster
		if !slices.ContainsFunc(members, func(member v1alpha1.Cluster) bool { return member.Name == cluster }) {
			continue
		}
		for _, node := range all[i].Spec.Nodes {
			clusters[node.Address] = cluster
		}
	}
	return clusters
}

func (s *Reconciler) reconcile(ctx context.Context, service *tsn.TSNService) (again time.Duration, err error) {
	v, err := s.readView(ctx, service)
	if err != nil {
		return 0, err
	}
	p := newPlan(service, v)
	if !spread.Blocked(p.findings) {
		again, err = s.apply(ctx, service, p, v)
	}
	var foreign spread.ForeignError
	if errors.As(err, &foreign) {
		p.findings, err = append(p.findings, spread.Finding{Reason: spread.ReasonForeign, Text: foreign.Error(), Blocks: true}), nil
	}
	if err == nil && spread.Blocked(p.findings) {
		again, err = s.deleteLeaving(ctx, service, v)
	}
	if err != nil {
		return 0, err
	}
	return again, s.updateStatus(ctx, service, p, v)
}

// apply writes the service's policies and links.
func (s *Reconciler) apply(ctx context.Context, service *tsn.TSNService, p *plan, v *view) (again time.Duration, err error) {
	if err := s.write(ctx, service, p, v); err != nil {
		return 0, err
	}
	key := client.ObjectKeyFromObject(service)
	decided := pair(service, p, v, s.failed[key], s.Now())
	s.failed[key] = decided.failed
	err = s.applyLinks(ctx, service, v, decided)
	if slices.ContainsFunc(decided.findings, func(finding spread.Finding) bool { return finding.Reason == tsn.ReasonRangeUsedUp }) {
		decided.retryIn(s.ledger.NextFree())
	}
	p.findings = append(p.findings, decided.findings...)
	return decided.retryAfter, err
}
