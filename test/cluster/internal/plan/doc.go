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
package plan
