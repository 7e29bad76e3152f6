// SPDX-License-Identifier: Apache-2.0

package services

import (
	"cmp"
	"context"
	"math"

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
	return spread.UpdateStatus(ctx, s.Client, service, changed, &changed.Status.Conditions, "service", p.findings, on)
}
