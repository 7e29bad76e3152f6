// SPDX-License-Identifier: Apache-2.0

// Package network says which networks a cluster has, and which part of each network's addresses belongs to which
// node. Everything here follows from the same input in the same way on each node, so the nodes' agents agree without
// talking to each other.
//
// Who else in the agent needs networks sees Source only. File is the one that there is now: a file of the chart. A
// second one, of objects in the cluster, takes its place without anything else changing.
package network
