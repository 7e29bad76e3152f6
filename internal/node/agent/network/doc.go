// SPDX-License-Identifier: Apache-2.0

// Package network says which networks a cluster has, and which part of each network's addresses belongs to which
// node. Everything here follows from the same input in the same way on each node, so the nodes' agents agree without
// talking to each other.
//
// Who else in the agent needs networks sees Source only. File is a file of the chart; Objects are the cluster's
// TSNNetworks, whose addresses the operator has divided.
package network
