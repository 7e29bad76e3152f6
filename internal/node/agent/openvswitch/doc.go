// SPDX-License-Identifier: Apache-2.0

// Package openvswitch keeps a node's Open vSwitch as the cluster's networks and nodes want it, where the node's ktsnd sends
// through that: what `ktsn ovs setup` does, for the networks that the node has a part of and the nodes that have one.
//
// Threads: a Follower is its reconciler's; Watch may run beside it.
package openvswitch
