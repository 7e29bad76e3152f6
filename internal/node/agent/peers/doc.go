// SPDX-License-Identifier: Apache-2.0

// Package peers reconciles a node's peers, the other nodes of its networks, in the kernel and in ktsnd together. It
// always compares the complete state, whatever the trigger (a new node, another range, a deleted forwarding entry), and
// repeats that periodically.
//
// Nodes with a fault (no subnet of a network, an overlapping subnet, no address) are skipped. Only the agent of such a
// node is not ready; the others report it in logs and metrics.
//
// The agent owns all peers of the node: peers that are not planned are removed.
package peers
