// SPDX-License-Identifier: Apache-2.0

// Package overlay is the kernel's side of a VXLAN network of pods on one node:
//
//	pod                      pod
//	 tsn0                     tsn0
//	  |                        |
//	 tsn3f0c…               tsn91ab…         a veth pair for each attachment, named after it
//	  +------- tsnbr42 --------+             one bridge a network
//	              |
//	           tsnvx42                       one VXLAN device a network: the tunnel
//	              |
//	            uplink ------------ the other nodes
//
// The first port of a network makes its bridge and tunnel, the last to leave removes them. What this package
// made carries a link group of its own from the moment of creation, so that a device which was there before
// is used and never removed, however a program was killed. The kernel is the truth about devices and ports;
// the state directory holds only what the kernel cannot: the peers (remote nodes) that were told, which a
// tunnel gets when it is made.
//
// Two programs at once take turns by a lock in the state directory, with a time limit. It is held while
// bridge and tunnel are made sure of and a port is added, and while the last port's departure is dealt with;
// never while another program is waited for, but for ktsnd when a network's first port asks it for the uplink
// and when peers change.
//
// Threads: a Node works in the network namespace of the thread that opened it.
package overlay
