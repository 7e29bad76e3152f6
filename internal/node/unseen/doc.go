// SPDX-License-Identifier: Apache-2.0

// Package unseen keeps datagrams that libktsn.so does not see from leaving a pod early: it attaches a tc program
// (datapath/unseen) to the egress of the pod's interface on a network, which drops what carries a transmit time and
// counts it as unseen, with the name of the program that sent it where that can be known.
//
// The kernel holds the program by the interface's filter, and its maps by the program: nothing is pinned, nothing
// outlives the interface, and whoever may do so finds them by the filter.
//
// Threads: the functions work on the network namespace that the calling thread is in, but for ReadIn, which enters one.
package unseen
