// SPDX-License-Identifier: Apache-2.0

// Package gates has the node's ktsnd execute the schedule that the cluster's TSNNetworks ask for, and says in each
// network's status what holds on the node. The schedule is told as soon as the operator has chosen its base time, which
// is the same for all nodes; an agent that comes later tells it nevertheless, and ktsnd begins with the next cycle.
//
// What ktsnd executes is the agent's to decide: a schedule that somebody set by hand is replaced.
package gates
