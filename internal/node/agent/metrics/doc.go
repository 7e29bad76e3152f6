// SPDX-License-Identifier: Apache-2.0

// Package metrics exports the counters of ktsnd to Prometheus: of the node, and of each pod and traffic class.
//
// ktsnd counts per socket and drops the counters of closed sockets. The package polls ktsnd every few seconds and adds
// the increase of each socket to its pod. The counts of a socket between the last poll and its end, and the reasons of
// drops, are in the node's metrics only.
//
// Threads: one goroutine polls; Prometheus reads through the client library.
package metrics
