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

// encryptionNotes describe the encryption of a link.
type encryptionNotes struct {
	// note says how frames leave, silent why none leave.
	note, silent string
}

// errNotKnown means that the encryption of a link is not known yet.
var errNotKnown = errors.New("not known yet")

// encrypt sets the encryption in the plan of an end. A link that requires encryption is plugged only when both nodes
// have keys. If it was plugged, it stays without keys, and sends nothing.
func (r *Reconciler) encrypt(s *side, plan *attachment.LinkPlan) (encryptionNotes, error) {
	if s.local || !s.link.Spec.Encrypted() {
		// Frames to a pod of the node do not leave it; by the pod's default route they would.
		plan.Link.Closed = s.link.Spec.Encryption == v1alpha1.EncryptionRequired
		return encryptionNotes{}, nil
	}
	mode := encryption.LinkMode(s.requires())
	linkState := r.Encryption(mode, s.end, s.otherEnd)
	switch {
	case linkState.Unknown != "":
		return encryptionNotes{}, fmt.Errorf("how the link is encrypted is %w: %s", errNotKnown, linkState.Unknown)
	case linkState.Refused != "":
		return encryptionNotes{}, fmt.Errorf("the service requires encryption, and %s", linkState.Refused)
	case linkState.Clear != "":
		return encryptionNotes{note: "frames to the other node leave in clear, as the service's encryption allows: " + linkState.Clear}, nil
	case linkState.Silent != "" && !s.wasPlugged():
		return encryptionNotes{}, fmt.Errorf("frames to the other node are to be encrypted, and %s", linkState.Silent)
	}
	plan.Encrypted, plan.Port, plan.Link.Closed = true, r.EncryptedPort, true
	notes := encryptionNotes{note: "frames to the other node are encrypted"}
	if linkState.Silent != "" {
		notes.silent = "frames to the other node are to be encrypted, and are not sent: " + linkState.Silent
	}
	return notes, nil
}

// requires reports whether frames of the link must not leave in clear.
func (s *side) requires() bool {
	return s.link.Spec.Encryption == v1alpha1.EncryptionRequired && !s.local
}

// wasPlugged reports whether this end is plugged according to the link's status.
func (s *side) wasPlugged() bool {
	condition := s.lastCondition(s.condition(), nil)
	return condition != nil && condition.Status == metav1.ConditionTrue
}

// unplugClear unplugs an end that sends in clear although it requires encryption.
func (r *Reconciler) unplugClear(ctx context.Context, s *side) (unplugged bool, err error) {
	if !s.requires() {
		return false, nil
	}
	all, err := r.Plugin.Plugged(s.end.Interface)
	if err != nil {
		return false, err
	}
	for i := range all {
		if plugged := &all[i]; plugged.Identity == s.end.UID && plugged.Interface == s.end.Interface && !plugged.Encrypted {
			r.close(plugged)
			unplugged, err = true, errors.Join(err, r.unplug(ctx, s.key(), plugged))
		}
	}
	return unplugged, err
}

// unplugClosed unplugs an end. Packets that the pod still sends to the other end of an encrypted link must not leave by
// another route in clear, so they are refused first.
func (r *Reconciler) unplugClosed(ctx context.Context, plugged *attachment.Plugged) error {
	if plugged.Encrypted || plugged.Link.Closed { // a previous agent may have set only Encrypted
		r.close(plugged)
	}
	return r.Plugin.Unplug(ctx, plugged)
}

// close makes a pod refuse packets to the other end of a link. The pod may have no network namespace any more.
func (r *Reconciler) close(plugged *attachment.Plugged) {
	if err := r.Plugin.Close(plugged); err != nil {
		r.Log.Warn("a pod may send to the other end of its link by another route", "uid", plugged.Identity, "interface", plugged.Interface, "error", err)
	}
}
