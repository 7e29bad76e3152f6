// SPDX-License-Identifier: Apache-2.0

// Package ovsnode runs an Open vSwitch with DPDK of one's own on a node of a topology, beside whichever the machine has:
// its database, sockets, log and hugepages are the topology's and go away with it.
package ovsnode
