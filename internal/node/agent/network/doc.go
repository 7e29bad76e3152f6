// SPDX-License-Identifier: Apache-2.0

// Package network defines the networks of a cluster and the subnets of its nodes.
//
// There are two sources. A File of the chart defines networks, and the nodes' subnets follow from the Nodes in the same
// way on each node (Assign), so that agents need not communicate. Or the operator assigns subnets, and a Cluster has
// its objects for this node.
package network
