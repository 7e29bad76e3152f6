// SPDX-License-Identifier: Apache-2.0

package network

// Annotations of nodes.
const (
	// RangeAnnotation : followed by the name of a network. The value has the node's subnets, one per range,
	// separated by commas. It applies without an operator only, which assigns subnets otherwise.
	RangeAnnotation = "range.kubernetsn.io/"
)
