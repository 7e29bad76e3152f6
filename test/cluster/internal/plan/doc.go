// SPDX-License-Identifier: Apache-2.0

// Package plan has the names and addresses of a cluster: all follow from its name, so that clusters of different names
// do not conflict, and removing one requires nothing else.
//
//	this machine        switch             node1             node2
//	ktsnc<id> .1 ───── machine ┐
//	                           br0 ─────── eth0 .11          eth0 .12
//	                            └───────────────────────────────┘
//
// Switch and nodes are network namespaces. Only the interface ktsnc<id> is this machine's.
//
// Each cluster of a federation has a router, and so has the hub, whose network namespaces also include the WAN:
//
//	switch             router                     WAN (of the hub)
//	br0 ──── router ─── eth0 .2    wan .<number> ─── site-<id> ┐
//	                                                         br0 ─── the routers of others
package plan
