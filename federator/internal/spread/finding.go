// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// Reasons of conditions of what a hub spreads, beside those that clusters have as well.
const (
	// ReasonWaiting : clusters have not taken the object yet.
	ReasonWaiting = "WaitingForClusters"
	// ReasonUnready : clusters have taken the object, and do not find it ready.
	ReasonUnready = "ClustersNotReady"
	// ReasonUntrusted : a cluster says something of itself that cannot be, and that other clusters are not told.
	ReasonUntrusted = "ReportRefused"
	// ReasonForeign : an object of the name that the federator needs is somebody else's.
	ReasonForeign = "ForeignObject"
)

// Finding is something that does not hold.
type Finding struct {
	Reason, Text string
	// Blocks : nothing is changed at the clusters because of it.
	Blocks bool
}

// Blocked tells whether something stands in the way of any change.
func Blocked(findings []Finding) bool {
	for _, finding := range findings {
		if finding.Blocks {
			return true
		}
	}
	return false
}

// On is how an object is on a cluster.
type On struct {
	Cluster string
	// Applied : the cluster has taken it. Message says why not.
	Applied bool
	Message string
	// Conditions are those that the cluster has given it.
	Conditions []metav1.Condition
}

// Ready says whether all clusters that shall have an object have it, and find it ready themselves. kind is what it is called.
func Ready(kind string, findings []Finding, on []On) metav1.Condition {
	for _, finding := range findings {
		if finding.Blocks {
			return metav1.Condition{Type: tsn.ConditionReady, Status: metav1.ConditionFalse, Reason: finding.Reason, Message: Message([]string{finding.Text})}
		}
	}
	var missing, unready []string
	for _, placement := range on {
		switch condition := meta.FindStatusCondition(placement.Conditions, tsn.ConditionReady); {
		case !placement.Applied:
			missing = append(missing, because(placement.Cluster, placement.Message))
		case condition == nil:
			unready = append(unready, because(placement.Cluster, cmp.Or(placement.Message, "it has not said anything yet")))
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
		texts, reason = append(texts, "clusters that have not taken the "+kind+" yet: "+Some(missing)), ReasonWaiting
	}
	if len(texts) > 0 {
		return metav1.Condition{Type: tsn.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: Message(texts)}
	}
	return metav1.Condition{Type: tsn.ConditionReady, Status: metav1.ConditionTrue, Reason: tsn.ReasonAsAsked,
		Message: fmt.Sprintf("%d clusters have their parts of the %s", len(on), kind)}
}

// because is a cluster and what is said of it.
func because(cluster, why string) string {
	if why == "" {
		return cluster
	}
	return cluster + " (" + why + ")"
}

// Degraded names what does not hold although the object is served.
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
