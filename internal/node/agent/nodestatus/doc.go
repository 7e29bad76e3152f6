// SPDX-License-Identifier: Apache-2.0

// Package nodestatus writes the status of the node's TSNNode: whether each network is ready, which schedule is in force, how the clock,
// encryption and captured interfaces are. It also sets the schedule in the node's ktsnd, as soon as the operator has chosen its base time,
// which is the same for all nodes. An agent that starts later sets it nevertheless, and ktsnd begins with the next cycle.
//
// The agent decides which schedule ktsnd executes: one that somebody set by hand is replaced.
package nodestatus
