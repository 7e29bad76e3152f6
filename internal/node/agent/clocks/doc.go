// SPDX-License-Identifier: Apache-2.0

// Package clocks follows the node's clock and publishes its state: to ktsnd, which holds or refuses timed messages of
// networks whose clock is lost; in the status of the node's TSNNode; as Events; and as metrics. Each network with
// spec.clock is judged by its own requirement, and the node by the strictest of them.
//
// One goroutine judges. It publishes the results for the status under a lock and passes them to a second goroutine that
// talks to ktsnd, so that a ktsnd that hangs delays nothing else.
package clocks
