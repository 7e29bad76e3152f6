// SPDX-License-Identifier: Apache-2.0

// Package links plugs the interfaces of TSNLinks into the pods of a node, describes the links to their applications,
// and reports the state in the links' status.
//
//	TSNLinks of the node ---+                      +--> tsn-cni (package cni): interface, peer, ktsnd
//	sandboxes (tsn-cni) ----+--> Reconciler: one --+--> probe (package linkprobe), of clients
//	results of the probe ---+    link at a time    +--> files for ktsn-wait, names in /etc/hosts
//	                                               +--> conditions in the link's status
//
// An end is on this node if the node has a sandbox with its pod's UID: node names may be the same in two clusters.
// Plugged links stay while the API server is away, and after the agent has ended.
package links
