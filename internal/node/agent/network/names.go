// SPDX-License-Identifier: Apache-2.0

package network

// Annotations and labels.
const (
	// RangeAnnotation and the name of a network form the annotation of a node with its subnets, one per range, separated by
	// commas. It applies without an operator only.
	RangeAnnotation = "range.kubernetsn.io/"
)
