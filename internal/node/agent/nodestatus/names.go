// SPDX-License-Identifier: Apache-2.0

package nodestatus

// Reasons of the condition ScheduleOperational of a node.
const (
	// reasonPending : the schedule has not begun on the node, or the node does not have it yet.
	reasonPending = "Pending"
	// reasonRefused : the node's ktsnd rejects the schedule; the message has the reason.
	reasonRefused = "Refused"
	// reasonLinkTooSlow : the node's link is slower than spec.linkSpeed.
	reasonLinkTooSlow = "LinkTooSlow"
)
