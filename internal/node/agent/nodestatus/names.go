// SPDX-License-Identifier: Apache-2.0

package nodestatus

// Reasons of the condition ScheduleOperational of a node.
const (
	// reasonPending : the schedule has not begun on the node, or is not known there yet.
	reasonPending = "Pending"
	// reasonRefused : the node's ktsnd refuses the schedule, as the sentence says.
	reasonRefused = "Refused"
	// reasonLinkTooSlow : the node's link is slower than spec.linkSpeed.
	reasonLinkTooSlow = "LinkTooSlow"
)
