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

// probeKept asks a link that a former agent has plugged, and that stays while the operator says nothing of it, and says whether it is up: the
// condition would be the former agent's for as long as that lasts. Of all else, what was said holds.
func (r *Reconciler) probeKept(ctx context.Context, s *side, plugged *attachment.Plugged) (again time.Duration, err error) {
	link := &plugged.Link
	if !s.isClient || len(link.Addresses) == 0 || len(link.Peer.Addresses) == 0 {
		return everyLook, nil
	}
	key := s.key()
	r.Prober.Watch(key, &linkprobe.Target{
		Netns: s.sandbox.Netns, Interface: s.own.Interface, Own: link.Addresses[0].Addr(), Peer: link.Peer.Addresses[0],
		MTU: plugged.MTU, Adapt: s.link.Spec.MTU == 0,
	})
	finding, _ := r.Prober.Of(key)
	if !finding.Up && finding.Sentence == "" {
		return settle, nil // no answer is due yet
	}
	return afterFailure, r.reportUp(ctx, s, &outcome{mtu: plugged.MTU, finding: finding})
}

// reportUp writes whether the link is up, beside what was said of the end before.
func (r *Reconciler) reportUp(ctx context.Context, s *side, done *outcome) error {
	before := r.ends.saidLately(s.key(), r.Now())
	if before == nil {
		before = s.saidBefore()
	}
	last := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionUp)
	condition := s.up(done)
	if last != nil && last.Status == condition.Status && last.Message == condition.Message {
		return nil
	}
	now := before.DeepCopy()
	condition.ObservedGeneration = s.link.Generation
	meta.SetStatusCondition(&now.Conditions, condition)
	if err := r.apply(ctx, s, now); err != nil {
		return err
	}
	r.ends.say(s.key(), now, r.Now())
	return nil
}
