// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"cmp"
	"context"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
)

// updateStatus writes the conditions of a network.
func (s *Reconciler) updateStatus(ctx context.Context, network *tsn.TSNNetwork, p *plan, v *view) error {
	changed := network.DeepCopy()
	return spread.UpdateStatus(ctx, s.Client, network, changed, &changed.Status.Conditions, "network", p.findings, p.placements(v))
}

// placements returns the state of the network on the clusters that should have it.
func (p *plan) placements(v *view) []spread.Placement {
	var on []spread.Placement
	for _, cluster := range p.selected {
		report := v.reports[cluster]
		on = append(on, spread.Placement{Cluster: cluster, Applied: report.Applied, Message: cmp.Or(report.Message, spread.Lack(v.clusters, cluster, "TSNNetwork")), Conditions: report.Status.Conditions})
	}
	return on
}
