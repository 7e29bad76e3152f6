// SPDX-License-Identifier: Apache-2.0

// Package peers keeps a node's networks as the cluster's nodes and networks want them: it looks at all of both, and
// makes true what is not, for kernel and ktsnd together. Whatever brought it about (a node that came, another range,
// somebody who removed a forwarding entry), the work is the same, and it is done again from time to time.
//
// A node with a fault (no part of a network, one that overlaps others', no address) is left out, and only its own agent is
// not ready for that; the others say so in their logs and figures.
//
// All peers of the node are the agent's: those that nobody wants are removed.
package peers
