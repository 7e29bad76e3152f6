// SPDX-License-Identifier: Apache-2.0

package services

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
)

// count adds a number that a cluster reports, which can be any.
func count(sum *int32, reported int32) {
	*sum += min(max(reported, 0), math.MaxInt32-*sum)
}

// updateStatus writes the conditions and counts of a service.
func (s *Reconciler) updateStatus(ctx context.Context, service *tsn.TSNService, p *plan, v *view) error {
	changed := service.DeepCopy()
	changed.Status.Endpoints, changed.Status.Clients, changed.Status.Linked = 0, 0, 0
	var on []spread.Placement
	for _, cluster := range p.selected {
		report := v.reports[cluster]
		on = append(on, spread.Placement{Cluster: cluster, Applied: report.Applied, Message: cmp.Or(report.Message, spread.Lack(v.clusters, cluster, "TSNService")), Conditions: report.Status.Conditions})
	}
	for _, report := range v.reports {
		count(&changed.Status.Endpoints, report.Status.Endpoints)
		count(&changed.Status.Clients, report.Status.Clients)
		count(&changed.Status.Linked, report.Status.Linked)
	}
	for _, condition := range []metav1.Condition{spread.Ready("service", p.findings, on), spread.Degraded(p.findings)} {
		condition.ObservedGeneration = service.Generation
		meta.SetStatusCondition(&changed.Status.Conditions, condition)
	}
	if equality.Semantic.DeepEqual(service.Status, changed.Status) {
		return nil
	}
	if err := s.Client.Status().Update(ctx, changed, spread.FieldOwner); err != nil {
		return fmt.Errorf("write its status: %w", err)
	}
	return nil
}
