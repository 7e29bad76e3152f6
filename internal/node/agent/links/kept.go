// SPDX-License-Identifier: Apache-2.0

package links

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/linkprobe"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
)

// probeKept probes a link that a previous agent plugged and that the operator has not decided about. It updates the
// condition Up only, which would otherwise remain that of the previous agent.
func (r *Reconciler) probeKept(ctx context.Context, s *side, plugged *attachment.Plugged) (again time.Duration, err error) {
	link := &plugged.Link
	if !s.isClient || len(link.Addresses) == 0 || len(link.Peer.Addresses) == 0 {
		return resyncInterval, nil
	}
	key := s.key()
	r.Prober.Watch(key, &linkprobe.Target{
		Netns: s.sandbox.Netns, Interface: s.end.Interface, Local: link.Addresses[0].Addr(), Peer: link.Peer.Addresses[0],
		MTU: plugged.MTU, Adapt: s.link.Spec.MTU == 0,
	})
	finding, _ := r.Prober.Finding(key)
	if !finding.Up && finding.Message == "" {
		return settleTimeout, nil // no answer is due yet
	}
	return retryDelay, r.reportUp(ctx, s, &outcome{mtu: plugged.MTU, finding: finding})
}

// reportUp updates the condition Up in the end's last report.
func (r *Reconciler) reportUp(ctx context.Context, s *side, result *outcome) error {
	before := r.ends.recentReport(s.key(), r.Now())
	if before == nil {
		before = s.previousReport()
	}
	last := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionUp)
	condition := s.upCondition(result)
	if last != nil && last.Status == condition.Status && last.Message == condition.Message {
		return nil
	}
	now := before.DeepCopy()
	condition.ObservedGeneration = s.link.Generation
	meta.SetStatusCondition(&now.Conditions, condition)
	if err := r.patchStatus(ctx, s, now); err != nil {
		return err
	}
	r.ends.setReport(s.key(), now, r.Now())
	return nil
}
