// SPDX-License-Identifier: Apache-2.0

// Package filter keeps foreign packets out of a node's tunnels, and the node out of its pods' networks. It is a table of
// nftables called kubernetsn, in two families:
//
//	inet    what arrives for a tunnel: by the uplink only, from peers only, with a source that is behind the peer
//	        what leaves the node by the tunnel's port: nothing that the node forwards, nothing of a program's socket
//	        what the node's programs send into a closed bridge: nothing
//	netdev  what a closed bridge hands to the node: nothing, ARP included
//
//	  packet for the node, UDP port and VNI of a tunnel
//	    |  input ──> tunnel ──> (inside, or tagged) ──> the kernel's VXLAN device
//	    drop, counted by reason
//
// The rules never change but with this package; which tunnels, peers, sources and bridges there are stands in sets. Each rule's
// comment ends with a digest of the rule, so that one which somebody changed, or an older version made, is known.
//
// Apply is level-based: it is told all that shall be, compares it with what is there, and changes what differs in one
// transaction. It touches no other table. Callers take turns by a lock of their own.
//
// Threads: everything works in the network namespace of the calling thread.
package filter
