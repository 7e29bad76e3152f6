// SPDX-License-Identifier: Apache-2.0

package report

import "github.com/kubernetsn/kubernetsn/bench/results"

// clusterTarget is the name of a cluster in profiles.
const clusterTarget = "cluster"

func inCluster(summary *results.Summary) bool {
	return summary.Profile != nil && summary.Profile.Target == clusterTarget
}

// nodesOf describes the nodes of a measurement.
func nodesOf(summary *results.Summary) string {
	if inCluster(summary) {
		return "two nodes of a Kubernetes cluster"
	}
	return "two nodes, which are network namespaces of one machine joined by a veth pair"
}

// saturatedInACluster replaces the text about namespaces.
const saturatedInACluster = "A sender on the talkers’ node that sends messages of 1,400 B as fast as it can, by the network that each " +
	"pod has, whichever path is measured, to the listeners’ node. What it saturates is what the paths share: the link, or before it " +
	"a processor."
