// SPDX-License-Identifier: Apache-2.0

// Package links makes true what TSNLinks say of the pods of a node: it plugs the links' interfaces into them, tells their applications of
// it, and says in the links' status what has become of them.
//
//	TSNLinks of the node ---+                      +--> tsn-cni (package cni): interface, peer, ktsnd
//	sandboxes (tsn-cni) ----+--> Reconciler: one --+--> probe (package linkprobe), of clients
//	what the probe found ---+    link at a time    +--> files for ktsn-wait, names in /etc/hosts
//	                                               +--> conditions in the link's status
//
// An end is this node's if a sandbox of its pod's UID is. Names of nodes are not enough: those of two clusters may have one name.
// What a node's pods have stays while the API server is away, and after the agent's end.
package links
