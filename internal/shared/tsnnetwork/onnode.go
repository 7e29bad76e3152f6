// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"slices"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// OnNode returns the spec and the status of a network in a TSNNode; nil if missing.
func OnNode(node *v1alpha1.TSNNode, network string) (part *v1alpha1.NodeNetwork, status *v1alpha1.NodeNetworkStatus) {
	if at := slices.IndexFunc(node.Spec.Networks, func(nodeNetwork v1alpha1.NodeNetwork) bool { return nodeNetwork.Name == network }); at >= 0 {
		part = &node.Spec.Networks[at]
	}
	if at := slices.IndexFunc(node.Status.Networks, func(s v1alpha1.NodeNetworkStatus) bool { return s.Name == network }); at >= 0 {
		status = &node.Status.Networks[at]
	}
	return part, status
}
