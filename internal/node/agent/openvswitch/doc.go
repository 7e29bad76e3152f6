// SPDX-License-Identifier: Apache-2.0

// Package openvswitch keeps the tunnels of the cluster's networks in a node's Open vSwitch, where ktsnd sends through
// it: it does the same as `ktsn ovs setup` for the networks in which the node has a subnet.
//
// Threads: a Reconciler belongs to its controller; Watch may run concurrently.
package openvswitch
