// SPDX-License-Identifier: Apache-2.0

// Package objects keeps what the API server says of this node: its TSNNode, and the TSNNetwork and the TSNPeers of each
// network that the TSNNode names. It watches these objects and no others. Watches begin and end as the node's networks
// do.
//
// What was heard stays when the API server is away. Objects are kept in the form in which the agent needs them: a
// cluster's TSNPeers name every node.
//
// Threads: State may be called from any goroutine; each watch has a goroutine of its own, and all end with Run.
package objects
