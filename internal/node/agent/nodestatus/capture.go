// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/relay"
)

// captured returns the condition whether the frames of a network's captured interfaces go through ktsnd. some is false if there are none.
func captured(network string, relays []relay.Status) (condition metav1.Condition, some bool) {
	condition = metav1.Condition{Type: v1alpha1.ConditionCaptureOperational, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsAsked}
	count, troubled := 0, 0
	for i := range relays {
		status := &relays[i]
		if status.Network != network {
			continue
		}
		count++
		reason, message := status.Trouble()
		if reason == "" {
			continue
		}
		troubled++
		// Report one relay, whose message says what to do; dropped frames are worse than those that the kernel sends.
		if condition.Status == metav1.ConditionTrue || condition.Reason == v1alpha1.ReasonKernelPath && reason != condition.Reason {
			condition.Status, condition.Reason = metav1.ConditionFalse, reason
			condition.Message = fmt.Sprintf("pod %s: %s", status.Identity, message)
		}
	}
	if troubled > 1 {
		condition.Message += fmt.Sprintf(" (and %d more)", troubled-1)
	}
	return condition, count > 0
}
