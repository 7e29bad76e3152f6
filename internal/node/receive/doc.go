// SPDX-License-Identifier: Apache-2.0

// Package receive loads the program that takes datagrams at the uplink into receive rings of applications
// (datapath/receive), and tells it of peers and pods.
//
//	uplink, ingress:  filter ktsn_receive        what it may take stands in maps, pinned in a folder that the node has in the BPF filesystem:
//	  peers      which sources are behind which node, level-based: all of them at once (SetPeers)
//	  endpoints  the pods that asked, by network and hardware address (PutEndpoint)
//	  sockets, rings, controls                   ktsnd's
//	  counts     what became of frames, by reason
//
// The filter holds the program, and the folder the maps: both serve on when the program that loaded them has ended. Another
// release replaces the program in one step and keeps the maps. Detach leaves nothing.
//
// Threads: the functions work on the network namespace that the calling thread is in.
package receive
