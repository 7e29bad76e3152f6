// SPDX-License-Identifier: Apache-2.0

// Package receive loads the BPF program that puts datagrams from the uplink into receive rings of applications
// (datapath/receive), and maintains its peers and pods.
//
// The program is the filter ktsn_receive at the uplink's ingress. Its maps are pinned in the node's folder in the BPF filesystem:
//
//	peers      the sources behind each node; SetPeers replaces all of a network
//	endpoints  the pods with receive rings, by network and hardware address (PutEndpoint)
//	sockets, rings, controls   maintained by ktsnd
//	counts     frames by outcome
//
// The filter holds the program and the folder holds the maps, so both outlive the process that loaded them. Another release
// replaces the program atomically and keeps the maps. Detach removes everything.
//
// Threads: the functions work on the network namespace of the calling thread.
package receive
