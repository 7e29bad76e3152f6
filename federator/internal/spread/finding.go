// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// Reasons of conditions that only a hub sets.
const (
	// ReasonWaiting : clusters have not applied the object yet.
	ReasonWaiting = "WaitingForClusters"
	// ReasonUnready : clusters have applied the object, but it is not ready there.
	ReasonUnready = "ClustersNotReady"
	// ReasonUntrusted : a cluster's report is invalid and is not passed on to other clusters.
	ReasonUntrusted = "ReportRefused"
	// ReasonForeign : an object with the required name exists that the federator did not create.
	ReasonForeign = "ForeignObject"
)

// Finding is a problem with an object.
type Finding struct {
	Reason, Text string
	// Blocks: nothing is changed in the clusters as long as the problem exists.
	Blocks bool
}

// Blocked reports whether a finding blocks all changes.
func Blocked(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(finding Finding) bool { return finding.Blocks })
}

// Placement is the state of an object on a cluster.
type Placement struct {
	Cluster string
	// Applied: the cluster has taken the object. Message says why not.
	Applied bool
	Message string
	// Conditions are those that the cluster reports.
	Conditions []metav1.Condition
}

// Ready returns the condition Ready: all selected clusters have the object and report it as ready. kind is the word for
// the object in messages.
func Ready(kind string, findings []Finding, placements []Placement) metav1.Condition {
	for _, finding := range findings {
		if finding.Blocks {
			return metav1.Condition{Type: tsn.ConditionReady, Status: metav1.ConditionFalse, Reason: finding.Reason, Message: Message([]string{finding.Text})}
		}
	}
	var missing, unready []string
	for _, placement := range placements {
		switch condition := meta.FindStatusCondition(placement.Conditions, tsn.ConditionReady); {
		case !placement.Applied:
			missing = append(missing, because(placement.Cluster, placement.Message))
		case condition == nil:
			unready = append(unready, because(placement.Cluster, cmp.Or(placement.Message, "it has not reported yet")))
		case condition.Status != metav1.ConditionTrue:
			unready = append(unready, because(placement.Cluster, condition.Message))
		}
	}
	var texts []string
	reason := ReasonUnready
	if len(unready) > 0 {
		texts = append(texts, "clusters in which the "+kind+" is not ready: "+Some(unready))
	}
	if len(missing) > 0 {
		texts, reason = append(texts, "clusters that have not applied the "+kind+" yet: "+Some(missing)), ReasonWaiting
	}
	if len(texts) > 0 {
		return metav1.Condition{Type: tsn.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: Message(texts)}
	}
	return metav1.Condition{Type: tsn.ConditionReady, Status: metav1.ConditionTrue, Reason: tsn.ReasonAsAsked,
		Message: fmt.Sprintf("%d clusters have their parts of the %s", len(placements), kind)}
}

// because returns a cluster with a reason.
func because(cluster, why string) string {
	if why == "" {
		return cluster
	}
	return cluster + " (" + why + ")"
}

// Degraded returns the condition Degraded, which names the problems of an object that is served.
func Degraded(findings []Finding) metav1.Condition {
	var texts []string
	reason := ""
	for _, finding := range findings {
		if !finding.Blocks {
			texts, reason = append(texts, finding.Text), cmp.Or(reason, finding.Reason)
		}
	}
	if len(texts) == 0 {
		return metav1.Condition{Type: tsn.ConditionDegraded, Status: metav1.ConditionFalse, Reason: tsn.ReasonAsAsked, Message: "all is as it was asked for"}
	}
	return metav1.Condition{Type: tsn.ConditionDegraded, Status: metav1.ConditionTrue, Reason: reason, Message: Message(texts)}
}

// APIConditions returns conditions as the API shows them.
func APIConditions(all []metav1.Condition) []federation.Condition {
	conditions := []federation.Condition{}
	for _, condition := range all {
		conditions = append(conditions, federation.Condition{Type: condition.Type, Status: string(condition.Status), Reason: condition.Reason, Message: condition.Message})
	}
	return conditions
}
