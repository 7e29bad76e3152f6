// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
)

func TestTheNodeSaysItsKeysAndWhetherNetworksAreEncrypted(t *testing.T) {
	l := newLab(t, &v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: "tsn"}, Spec: v1alpha1.TSNNetworkSpec{VNI: 42}})
	reported := func() *v1alpha1.TSNNodeStatus {
		t.Helper()
		for range 3 { // the report may wait for a while
			l.now = l.now.Add(startPatience)
			l.reconcile()
		}
		l.hear()
		return &l.state.Node.Status
	}
	l.encryption.condition = &metav1.Condition{Type: v1alpha1.ConditionEncryptionOperational, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsAsked}
	l.encryption.announcement = encryption.Announcement{Keys: []v1alpha1.NodeKey{{ID: "one", Algorithm: v1alpha1.KeyAlgorithm, PublicKey: "AAAA"}},
		Sender: &v1alpha1.SenderGenerations{Kernel: 3, Ktsnd: 7}}
	status := reported()
	if len(status.Keys) != 1 || status.Sender.Ktsnd != 7 || !meta.IsStatusConditionTrue(status.Networks[0].Conditions, v1alpha1.ConditionEncryptionOperational) {
		t.Errorf("said %+v", status)
	}
	l.encryption.announcement, l.encryption.refused = encryption.Announcement{Unavailable: strings.Repeat("no ESP ", 500)}, "the node cannot encrypt"
	status = reported()
	ready := meta.FindStatusCondition(status.Networks[0].Conditions, v1alpha1.ConditionReady)
	if status.Keys != nil || status.Sender != nil || ready.Reason != v1alpha1.ReasonEncryptionUnavailable || len(status.EncryptionUnavailable) > 1024 {
		t.Errorf("said %+v", status)
	}
	l.encryption = fakeEncryption{}
	status = reported()
	if status.EncryptionUnavailable != "" || meta.FindStatusCondition(status.Networks[0].Conditions, v1alpha1.ConditionEncryptionOperational) != nil ||
		!meta.IsStatusConditionTrue(status.Networks[0].Conditions, v1alpha1.ConditionReady) {
		t.Errorf("said %+v", status)
	}
}
