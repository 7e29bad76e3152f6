// SPDX-License-Identifier: Apache-2.0

package links

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
)

// secrecy is what there is to say of a link's encryption.
type secrecy struct {
	// note is how its frames go, and silent why none can.
	note, silent string
}

// errNotKnown is that it is not known yet how a link is encrypted.
var errNotKnown = errors.New("not known yet")

// encrypt has the plan of an end be encrypted as it shall. A link that requires encryption is plugged only when both nodes have keys; one that
// was plugged stays so without them, and nothing passes.
func (r *Reconciler) encrypt(s *side, plan *attachment.LinkPlan) (secrecy, error) {
	if s.local || !s.link.Spec.Encrypted() {
		// Frames to a pod of the node do not leave it; by the pod's default route they would.
		plan.Link.Closed = s.link.Spec.Encryption == v1alpha1.EncryptionRequired
		return secrecy{}, nil
	}
	mode := encryption.LinkMode(s.requires())
	linkState := r.Encryption(mode, s.own, s.other)
	switch {
	case linkState.Unknown != "":
		return secrecy{}, fmt.Errorf("how the link is encrypted is %w: %s", errNotKnown, linkState.Unknown)
	case linkState.Refused != "":
		return secrecy{}, fmt.Errorf("the service requires encryption, and %s", linkState.Refused)
	case linkState.Clear != "":
		return secrecy{note: "frames to the other node leave in clear, as the service's encryption allows: " + linkState.Clear}, nil
	case linkState.Silent != "" && !s.wasPlugged():
		return secrecy{}, fmt.Errorf("frames to the other node are to be encrypted, and %s", linkState.Silent)
	}
	plan.Encrypted, plan.Port, plan.Link.Closed = true, r.EncryptedPort, true
	made := secrecy{note: "frames to the other node are encrypted"}
	if linkState.Silent != "" {
		made.silent = "frames to the other node are to be encrypted, and are not sent: " + linkState.Silent
	}
	return made, nil
}

// requires tells whether nothing of the link may go in clear.
func (s *side) requires() bool {
	return s.link.Spec.Encryption == v1alpha1.EncryptionRequired && !s.local
}

// wasPlugged tells whether this end is plugged, as far as has been said.
func (s *side) wasPlugged() bool {
	condition := s.last(s.condition(), nil)
	return condition != nil && condition.Status == metav1.ConditionTrue
}

// unplugClear unplugs an end that would send in clear what must not be.
func (r *Reconciler) unplugClear(ctx context.Context, s *side) (unplugged bool, err error) {
	if !s.requires() {
		return false, nil
	}
	all, err := r.Plugin.Plugged(s.own.Interface)
	if err != nil {
		return false, err
	}
	for i := range all {
		if plugged := &all[i]; plugged.Identity == s.own.UID && plugged.Interface == s.own.Interface && !plugged.Encrypted {
			r.close(plugged)
			unplugged, err = true, errors.Join(err, r.unplug(ctx, s.key(), plugged))
		}
	}
	return unplugged, err
}

// pull has the plugin unplug an end. What the pod still sends to the other one of an encrypted link does not take another way, in clear.
func (r *Reconciler) pull(ctx context.Context, plugged *attachment.Plugged) error {
	if plugged.Encrypted || plugged.Link.Closed { // by a former agent it can be the first without the second
		r.close(plugged)
	}
	return r.Plugin.Unplug(ctx, plugged)
}

// close has a pod send nothing to the other end of a link. It may be that the pod has no network namespace any more.
func (r *Reconciler) close(plugged *attachment.Plugged) {
	if err := r.Plugin.Close(plugged); err != nil {
		r.Log.Warn("a pod may send to the other end of its link by another way", "uid", plugged.Identity, "interface", plugged.Interface, "error", err)
	}
}
