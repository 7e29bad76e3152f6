// SPDX-License-Identifier: Apache-2.0

// Package objects watches this node's TSNNode, and the TSNNetwork and the TSNPeers of each network in it. It watches no
// other objects. Watches start and end with the node's networks.
//
// Objects stay known while the API server is away. They are kept in the form that the agent needs: a cluster's TSNPeers
// contain every node.
//
// Threads: State may be called from any goroutine; each watch has its own goroutine, which ends with Run.
package objects
