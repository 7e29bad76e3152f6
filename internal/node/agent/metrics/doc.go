// SPDX-License-Identifier: Apache-2.0

// Package metrics turns what ktsnd says into figures for Prometheus: of the node, and of each pod and traffic class.
//
// ktsnd counts per socket, and forgets a socket that is closed. So it is asked every few seconds, and what each socket
// has more than before is added to its pod. What a socket did between the last question and its end is in the node's
// figures only. Drops have reasons in the node's figures, too; ktsnd does not keep them by pod.
//
// Threads: one goroutine asks; Prometheus reads through the client library.
package metrics
