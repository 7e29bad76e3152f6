// SPDX-License-Identifier: Apache-2.0

// Package xfrm has the node's kernel encrypt the tunnels of encrypted networks: ESP in transport mode (RFC 4303) with AES-128-GCM
// (RFC 4106) around UDP to one port, which only these tunnels use. Its states and policies have a fixed Reqid and priorities, by which
// any process can find and remove them.
//
//	policy in    UDP to the port, from anywhere           must have come by ESP, else the kernel drops it before the tunnel sees it
//	policy out   UDP to the port, to a peer               leaves by ESP, or not at all while there is no state
//	policy out   UDP to the port, to anywhere else        does not leave
//	state in     per peer, sender and generation          takes packets from the peer's address only; a window of 4,096 against replay
//	state out    per peer                                 what the kernel itself sends
//
// Protect makes the first and the third, which keep clear frames from such a tunnel whatever else is missing.
//
// Threads: a Kernel works in the network namespace of the thread that opened it.
package xfrm
