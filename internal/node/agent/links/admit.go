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

// admission is whether the node may plug a link.
type admission int

const (
	// unknown : the operator has not said it of the link as it is.
	unknown admission = iota
	admitted
	refused
)

// admission of links of the operator is not asked for: only it makes such. Of others it says whether pods of the cluster have asked for them.
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

// keep leaves a link as it is until the operator has said whether it may be, also one that a former agent has plugged; unless it sends in
// clear what must not be.
func (r *Reconciler) keep(ctx context.Context, s *side) (again time.Duration, err error) {
	if r.isAnothers(s) {
		return everyLook, nil
	}
	if _, err := r.unplugClear(ctx, s); err != nil {
		return everyLook, err
	}
	if r.ends.plugged(s.key()) != nil {
		return everyLook, nil // as the link was when it was admitted, and asked by this agent
	}
	kept, err := r.pluggedOf(s)
	switch {
	case err != nil:
		return everyLook, err
	case kept != nil:
		return r.probeKept(ctx, s, kept)
	}
	return everyLook, r.refuse(ctx, s, unknown)
}

// pluggedOf is what is plugged as the end's link says, by whichever agent, nil: nothing.
func (r *Reconciler) pluggedOf(s *side) (*attachment.Plugged, error) {
	plugged, err := r.Plugin.Plugged(s.own.Interface)
	if err != nil {
		return nil, err
	}
	ownPrefixes, err := prefixes("addresses", s.own.Addresses)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // so none can be
	}
	at := slices.IndexFunc(plugged, func(one attachment.Plugged) bool {
		return one.Identity == s.own.UID && one.ContainerID == s.sandbox.ContainerID && one.Interface == s.own.Interface &&
			one.VNI == uint32(s.link.Spec.VNI) && slices.Equal(one.Link.Addresses, ownPrefixes)
	})
	if at < 0 {
		return nil, nil //nolint:nilnil // nothing is
	}
	return &plugged[at], nil
}

// refuse unplugs what is there of a link that may not be plugged, gives way to others, and says why.
func (r *Reconciler) refuse(ctx context.Context, s *side, is admission) error {
	why := errors.New("ktsn-operator has not said yet whether the pods of this cluster have asked for the link; see that it runs")
	if is == refused {
		why = fmt.Errorf("the link is not what pods of this cluster have asked for: %s", meta.FindStatusCondition(s.link.Status.Conditions, v1alpha1.ConditionAdmitted).Message)
	}
	anothers := r.isAnothers(s)
	if is == refused && !anothers {
		if err := r.unplugOwn(ctx, s); err != nil {
			return err
		}
	}
	for _, key := range r.ends.release(client.ObjectKeyFromObject(s.link)) {
		r.ends.again(key)
	}
	if anothers {
		return r.report(ctx, s, &outcome{err: why}) // the pod is told of the other one
	}
	return errors.Join(r.tell(s, &outcome{err: why}), r.report(ctx, s, &outcome{err: why}))
}

// unplugOwn unplugs what is there of an end.
func (r *Reconciler) unplugOwn(ctx context.Context, s *side) error {
	plugged, err := r.Plugin.Plugged(s.own.Interface)
	if err != nil {
		return err
	}
	for i := range plugged {
		if one := &plugged[i]; one.Identity == s.own.UID && one.Interface == s.own.Interface && one.VNI == uint32(s.link.Spec.VNI) {
			if err := r.unplug(ctx, s.key(), one); err != nil {
				return err
			}
		}
	}
	return nil
}

// isAnothers tells whether an end's interface is, or can be, that of another link: who makes links can make one with the ends and the number
// of another.
func (r *Reconciler) isAnothers(s *side) bool {
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
