// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// setHost sets the condition HostReady and lists the findings that do not stop traffic. The last ones stay while they are not known.
func (r *Reconciler) setHost(after, before *v1alpha1.TSNNodeStatus) {
	after.Conditions, after.HostFindings = slices.Clone(before.Conditions), before.HostFindings
	findings, known, failure := r.Host()
	if !known {
		return
	}
	condition := metav1.Condition{
		Type: v1alpha1.ConditionHostReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsAsked, LastTransitionTime: metav1.NewTime(r.Now()),
	}
	if failure != nil {
		condition.Status, condition.Reason = metav1.ConditionUnknown, v1alpha1.ReasonHostUnchecked
		condition.Message = "settings of the node cannot be checked: " + failure.Error()
	}
	after.HostFindings = nil
	for _, finding := range findings {
		switch {
		case !finding.Breaks:
			after.HostFindings = append(after.HostFindings, v1alpha1.HostFinding{
				Reason: finding.Reason, Message: tsnnetwork.Shorten(finding.Text, maxMessageBytes), Remedy: tsnnetwork.Shorten(finding.Remedy, maxMessageBytes),
			})
		case condition.Status != metav1.ConditionFalse:
			condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, finding.Reason, finding.Text+"; "+finding.Remedy
		default:
			condition.Message += "; and " + finding.Text + "; " + finding.Remedy
		}
	}
	condition.Message = tsnnetwork.Shorten(condition.Message, maxMessageBytes)
	meta.SetStatusCondition(&after.Conditions, condition)
}
