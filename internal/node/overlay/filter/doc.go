// SPDX-License-Identifier: Apache-2.0

// Package filter keeps foreign packets out of a node's tunnels, and the node out of its pods' networks. It is a table of
// nftables called kubernetsn, in two families:
//
//	inet    what arrives for a tunnel: by the uplink only, from peers only, with a source that is behind the peer
//	        what leaves the node by the tunnel's port: nothing that the node forwards, nothing of a program's socket
//	        what the node's programs send into a closed bridge: nothing
//	        what a closed bridge forwards: without connection tracking
//	netdev  what a closed bridge hands to the node: nothing, ARP included
//
//	  packet for the node, UDP port and VNI of a tunnel
//	    |  input ──> tunnel ──> (inside, or tagged) ──> the kernel's VXLAN device
//	    drop, counted by reason
//
// The rules are fixed for a version of this package; tunnels, peers, sources and bridges are elements of sets. Each rule's
// comment ends with a digest of the rule, by which Apply detects rules that were changed or that another version wrote.
//
// Apply is level-based: it gets the whole desired state, compares it with the existing rules and sets, and changes the differences in
// one transaction. It touches no other table. Callers must serialise their calls.
//
// Threads: everything works in the network namespace of the calling thread.
package filter
