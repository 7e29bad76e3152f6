// SPDX-License-Identifier: Apache-2.0

// Package clocks follows the clock of the node and has others know whether it can be believed: ktsnd, which holds or refuses timed
// messages of networks whose clock is lost; the status of the node's TSNNode; Events; and metrics. Each network with spec.clock is
// judged by what that asks for, and the node by the strictest of them.
//
// One goroutine judges. What it found is published under a lock for the status, and handed to a second goroutine that talks to
// ktsnd, so that a ktsnd that does not answer delays nobody.
package clocks
