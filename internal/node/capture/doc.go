// SPDX-License-Identifier: Apache-2.0

// Package capture brings the frames of a pod that libktsn.so did not take to the pod's relay. It attaches two tc programs
// (datapath/capture): one to the egress of the pod's interface, which puts a record in front of what carries a transmit
// time, and one to the ingress of the node's end, which redirects such frames to the relay's device, and in mode All every
// other frame as well. Both count what they did, with the names of the programs that sent where these can be known.
//
// The kernel holds a program by the interface's filter, and its maps by the program: nothing is pinned, nothing
// outlives the interface, and whoever may do so finds them by the filter.
//
// Threads: the functions work on the network namespace that the calling thread is in, but for ReadIn, which enters one.
package capture
