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

// tell writes into a network's status what has become of it.
func (s *Stretcher) tell(ctx context.Context, network *tsn.TSNNetwork, p *plan, v *view) error {
	changed := network.DeepCopy()
	for _, condition := range []metav1.Condition{spread.Ready("network", p.found, p.on(v)), spread.Degraded(p.found)} {
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

// on is how the network is on the clusters that shall have it.
func (p *plan) on(v *view) []spread.On {
	var on []spread.On
	for _, cluster := range p.selected {
		report := v.reports[cluster]
		on = append(on, spread.On{Cluster: cluster, Applied: report.Applied, Message: cmp.Or(report.Message, spread.Lack(v.clusters, cluster, "TSNNetwork")), Conditions: report.Status.Conditions})
	}
	return on
}
