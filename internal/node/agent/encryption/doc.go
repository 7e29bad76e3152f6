// SPDX-License-Identifier: Apache-2.0

// Package encryption has the frames of a node's encrypted networks encrypted on their way to other nodes.
//
//	TSNPeers, TSNNetwork ► Judge      whom to believe, and whether a network is encrypted here
//	Judge, Keyring       ► Reconciler in: what others may send; out: what kernel and ktsnd send, when others can take it
//	Reconciler           ► Judge      what the node announces, and what does not hold (gates writes it into the TSNNode)
//
// Receiving comes first: what other nodes announce is accepted at once, and a key of this node is used for sending when the network's
// other nodes have been told of it. What nobody wants any more is kept for a while, as peers are.
//
// The kernel is the truth about its own states: an agent that starts again goes on with those that others still take. It sends by new
// generations as soon as these reach, because it does not know which ones were used.
package encryption
