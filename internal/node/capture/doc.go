// SPDX-License-Identifier: Apache-2.0

// Package capture redirects frames that bypass libktsn.so to the pod's relay. It attaches two tc programs
// (datapath/capture): one to the egress of the pod's interface, which puts a record in front of frames that carry a transmit
// time, and one to the ingress of the node's end, which redirects such frames to the relay's device, and in mode All every
// other frame as well. Both count frames by outcome; the first also counts by the name of the sending program, if it is known.
//
// The interface's filter holds the program, and the program holds its maps. Nothing is pinned, nothing outlives the
// interface, and privileged programs find the maps by the filter.
//
// Threads: the functions work on the network namespace of the calling thread, except ReadIn, which enters one.
package capture
