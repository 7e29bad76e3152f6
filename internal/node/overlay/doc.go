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
// The first port of a network creates its bridge and tunnel, the last port to leave removes them. Devices of this package
// have a link group from their creation, so that a foreign device is used and never removed, even after a program was
// killed. The kernel has the state of devices and ports. The state directory has only the peers (remote nodes), which a
// tunnel gets when it is created.
//
// Two programs at once take turns by a lock in the state directory, with a time limit. It is held while
// bridge and tunnel are made sure of and a port is added, and while the last port's departure is dealt with;
// never while another program is waited for, but for ktsnd when a network's first port asks it for the uplink
// and when peers change.
//
// Threads: a Node works in the network namespace of the thread that opened it.
package overlay
