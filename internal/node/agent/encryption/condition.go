// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
)

// Condition returns whether a network is encrypted as it asks for, nil if it does not ask. refused is why pods cannot be on it.
func (j *Judge) Condition(joined *network.Joined) (condition *metav1.Condition, refused string) {
	v := j.Look(joined)
	if v == nil {
		return nil, ""
	}
	j.mu.Lock()
	trouble := j.trouble
	j.mu.Unlock()
	newCondition := func(status metav1.ConditionStatus, reason, text string) *metav1.Condition {
		return &metav1.Condition{
			Type: v1alpha1.ConditionEncryptionOperational, Status: status, Reason: reason, Message: strings.ReplaceAll(text, "\n", "; "),
		}
	}
	switch {
	case v.Unknown != "":
		condition = newCondition(metav1.ConditionUnknown, v1alpha1.ReasonKeysWaited, v.Unknown)
	case v.Refused != "":
		condition = newCondition(metav1.ConditionFalse, v1alpha1.ReasonEncryptionUnavailable, "the network requires encryption, and the node cannot encrypt: "+v.Refused)
		refused = condition.Message
	case v.Clear != "":
		condition = newCondition(metav1.ConditionFalse, v1alpha1.ReasonEncryptionUnavailable, "frames of the network are sent in clear, as spec.encryption allows: "+v.Clear)
	case v.Differs:
		condition = newCondition(metav1.ConditionFalse, v1alpha1.ReasonClusterKeyDiffers, some(v.Faults))
	case len(v.Faults) > 0:
		condition = newCondition(metav1.ConditionFalse, v1alpha1.ReasonPeersWithoutKeys, some(v.Faults))
	case trouble != nil:
		condition = newCondition(metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, trouble.Error())
	case v.Own == nil || len(v.Own.Keys) == 0:
		condition = newCondition(metav1.ConditionUnknown, v1alpha1.ReasonKeysWaited, "the operator has not told the other nodes of this node's keys yet")
	case len(v.Waited) > 0:
		condition = newCondition(metav1.ConditionUnknown, v1alpha1.ReasonKeysWaited, "these nodes have not announced keys yet: "+some(v.Waited))
	default:
		condition = newCondition(metav1.ConditionTrue, v1alpha1.ReasonAsAsked, "")
	}
	return condition, refused
}
