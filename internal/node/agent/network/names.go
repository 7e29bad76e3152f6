// SPDX-License-Identifier: Apache-2.0

package network

// Annotations of nodes.
const (
	// RangeAnnotation : followed by the name of a network: the parts of its ranges that the node has, between commas. It
	// counts where there is no operator, which divides them otherwise.
	RangeAnnotation = "range.kubernetsn.io/"
)
