// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"slices"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// OnNode is a network on a node: the node's part of it, and what the node's agent says of it; nil where there is none.
func OnNode(node *v1alpha1.TSNNode, network string) (part *v1alpha1.NodeNetwork, status *v1alpha1.NodeNetworkStatus) {
	if at := slices.IndexFunc(node.Spec.Networks, func(nodeNetwork v1alpha1.NodeNetwork) bool { return nodeNetwork.Name == network }); at >= 0 {
		part = &node.Spec.Networks[at]
	}
	if at := slices.IndexFunc(node.Status.Networks, func(s v1alpha1.NodeNetworkStatus) bool { return s.Name == network }); at >= 0 {
		status = &node.Status.Networks[at]
	}
	return part, status
}
