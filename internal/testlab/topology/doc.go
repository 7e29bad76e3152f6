// SPDX-License-Identifier: Apache-2.0

// Package topology makes two nodes and two pods out of network namespaces on this machine:
//
//	pod a                    pod b
//
//	node a                   node b
//	 phys0 ------------------ phys0   MTU 1500
//	192.0.2.1                192.0.2.2
//
// The physical link is a veth pair. The pods have no network yet: package cniruntime attaches them, as on real
// nodes, by the network plugin. The addresses that they get then, and all names, stand here.
//
// Every name carries an ID made of the creating process and its start time, so that runs do not meet and
// SweepStale knows, also after a kill -9, which of them nobody needs any more.
//
// Threads: each Namespace owns one goroutine locked to one thread that lives inside the namespace for as
// long as the Namespace does; everything inside it happens there. Functions given to Do must not hand work
// to other goroutines and expect it to happen in the namespace.
package topology
