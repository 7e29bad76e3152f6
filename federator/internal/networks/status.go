// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
)

// updateStatus writes the conditions of a network.
func (s *Reconciler) updateStatus(ctx context.Context, network *tsn.TSNNetwork, p *plan, v *view) error {
	changed := network.DeepCopy()
	for _, condition := range []metav1.Condition{spread.Ready("network", p.findings, p.placements(v)), spread.Degraded(p.findings)} {
		condition.ObservedGeneration = network.Generation
		meta.SetStatusCondition(&changed.Status.Conditions, condition)
	}
	if equality.Semantic.DeepEqual(network.Status, changed.Status) {
		return nil
	}
	if err := s.Client.Status().Update(ctx, changed, spread.FieldOwner); err != nil {
		return fmt.Errorf("write its status: %w", err)
	}
	return nil
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
