// SPDX-License-Identifier: Apache-2.0

// Package ovsnode runs a private Open vSwitch with DPDK on a node of a topology, next to the machine's own: its
// database, sockets, log and hugepages belong to the topology and are removed with it.
package ovsnode
