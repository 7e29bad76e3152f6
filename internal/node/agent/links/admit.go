// SPDX-License-Identifier: Apache-2.0

package links

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
)

// admission is the operator's decision whether the node may plug a link.
type admission int

const (
	// unknown means that the operator has not decided about this generation of the link.
	unknown admission = iota
	admitted
	refused
)

// admission returns the decision about a link. The operator's own links need none. For other links it depends on
// whether pods of the cluster have requested them.
func (s *side) admission() admission {
	if s.link.Labels[v1alpha1.LinkMakerLabel] == v1alpha1.MakerOperator {
		return admitted
	}
	condition := meta.FindStatusCondition(s.link.Status.Conditions, v1alpha1.ConditionAdmitted)
	switch {
	case condition == nil || condition.ObservedGeneration != s.link.Generation:
		return unknown
	case condition.Status == metav1.ConditionTrue:
		return admitted
	}
	return refused
}

// keepUndecided leaves a link as it is until the operator has decided, even if a previous agent plugged it; unless it
// sends in clear although it requires encryption.
func (r *Reconciler) keepUndecided(ctx context.Context, s *side) (again time.Duration, err error) {
	if r.ownedByOtherLink(s) {
		return resyncInterval, nil
	}
	if _, err := r.unplugClear(ctx, s); err != nil {
		return resyncInterval, err
	}
	if r.ends.plugged(s.key()) != nil {
		return resyncInterval, nil // plugged by this agent when it was admitted
	}
	kept, err := r.findPlugged(s)
	switch {
	case err != nil:
		return resyncInterval, err
	case kept != nil:
		return r.probeKept(ctx, s, kept)
	}
	return resyncInterval, r.refuse(ctx, s, unknown)
}

// findPlugged returns the interface that any agent has plugged for this link and end, nil if there is none.
func (r *Reconciler) findPlugged(s *side) (*attachment.Plugged, error) {
	plugged, err := r.Plugin.Plugged(s.end.Interface)
	if err != nil {
		return nil, err
	}
	ownPrefixes, err := prefixes("addresses", s.end.Addresses)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // no such link can be plugged
	}
	at := slices.IndexFunc(plugged, func(candidate attachment.Plugged) bool {
		return candidate.Identity == s.end.UID && candidate.ContainerID == s.sandbox.ContainerID && candidate.Interface == s.end.Interface &&
			candidate.VNI == uint32(s.link.Spec.VNI) && slices.Equal(candidate.Link.Addresses, ownPrefixes)
	})
	if at < 0 {
		return nil, nil //nolint:nilnil // not plugged
	}
	return &plugged[at], nil
}

// refuse unplugs a link that may not be plugged, lets other links claim the interface, and reports the reason.
func (r *Reconciler) refuse(ctx context.Context, s *side, decision admission) error {
	reason := errors.New("ktsn-operator has not decided yet whether pods of this cluster have requested the link; check that it runs")
	if decision == refused {
		reason = fmt.Errorf("pods of this cluster have not requested the link: %s", meta.FindStatusCondition(s.link.Status.Conditions, v1alpha1.ConditionAdmitted).Message)
	}
	ownedByOther := r.ownedByOtherLink(s)
	if decision == refused && !ownedByOther {
		if err := r.unplugEnd(ctx, s); err != nil {
			return err
		}
	}
	for _, key := range r.ends.release(client.ObjectKeyFromObject(s.link)) {
		r.ends.enqueueClaims(key)
	}
	if ownedByOther {
		return r.report(ctx, s, &outcome{err: reason}) // the pod's files describe the other link
	}
	return errors.Join(r.updatePod(s, &outcome{err: reason}), r.report(ctx, s, &outcome{err: reason}))
}

// unplugEnd unplugs an end of a link.
func (r *Reconciler) unplugEnd(ctx context.Context, s *side) error {
	plugged, err := r.Plugin.Plugged(s.end.Interface)
	if err != nil {
		return err
	}
	for i := range plugged {
		if entry := &plugged[i]; entry.Identity == s.end.UID && entry.Interface == s.end.Interface && entry.VNI == uint32(s.link.Spec.VNI) {
			if err := r.unplug(ctx, s.key(), entry); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownedByOtherLink reports whether an end's interface belongs, or may belong, to another link: the author of links can
// create several with the same ends and VNI.
func (r *Reconciler) ownedByOtherLink(s *side) bool {
	ownName := client.ObjectKeyFromObject(s.link)
	if owner, known := r.ends.ownerOf(s.key()); known {
		return owner != ownName
	}
	names, _ := r.Objects.All()
	return slices.ContainsFunc(names, func(name types.NamespacedName) bool {
		link := r.Objects.Get(name)
		if name == ownName || link == nil || link.DeletionTimestamp != nil || link.Spec.VNI != s.link.Spec.VNI || (&side{link: link}).admission() == refused {
			return false
		}
		return slices.ContainsFunc(r.sides(link), func(other *side) bool { return other.key() == s.key() })
	})
}
