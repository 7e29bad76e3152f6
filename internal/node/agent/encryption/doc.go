// SPDX-License-Identifier: Apache-2.0

// Package encryption encrypts the frames of a node's encrypted networks and links on their way to other nodes.
//
//	TSNPeers, TSNNetwork -> Judge       which nodes to trust, and whether a network is encrypted here
//	Judge -> wants                      the desired state: peers and their keys
//	nodeKeys, peerState, wants          when a key or a generation may be used: the peers must accept it
//	installer -> kernel, ktsnd          the states for receiving, and those for sending
//	Reconciler -> Judge                 the announcement and its problems, which package nodestatus writes into the TSNNode
//
// Receiving comes first: the keys that other nodes announce are accepted at once, and a key of this node is used for sending when the other
// nodes have been told of it. Keys of nodes that are no peers any more are kept for a while.
//
// The kernel is the truth about its own states: an agent that restarts keeps those that the peers still accept. It sends by new generations
// as soon as the peers accept them, because it does not know which ones were used.
package encryption
