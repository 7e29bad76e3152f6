// SPDX-License-Identifier: Apache-2.0

// Package plan says what a cluster is called and where it is: all names and addresses follow from its name, so
// that clusters of different names do not meet, and whoever takes one down needs to know nothing else.
//
//	this machine        switch             node1             node2
//	ktsnc<id> .1 ───── machine ┐
//	                           br0 ─────── eth0 .11          eth0 .12
//	                            └───────────────────────────────┘
//
// Switch and nodes are network namespaces. Only the interface ktsnc<id> is this machine's.
//
// The clusters of a federation have a router each, and so has the hub, whose network namespaces also include the WAN:
//
//	switch             router                     WAN (of the hub)
//	br0 ──── router ─── eth0 .2    wan .<number> ─── site-<id> ┐
//	                                                         br0 ─── the routers of others
package plan
