// SPDX-License-Identifier: Apache-2.0

// Package network says which networks a cluster has, and which part of each network's addresses belongs to which
// node.
//
// There are two origins. A File of the chart names networks, and the nodes' parts follow from the Nodes in the same way on
// each node (Assign), so that the agents agree without talking to each other. Or the operator has divided the addresses,
// and a Cluster is what its objects say of this node.
package network
