// SPDX-License-Identifier: Apache-2.0

// Package scenario describes one comparison of the shaper with the kernel's queueing disciplines: a schedule,
// the messages that are sent through it, and the deviations that are expected.
//
// One description is turned into both sides' input, here and nowhere else: tc commands for the kernel
// ([Scenario.Commands]) and lines for ktsn-shaper-replay ([Scenario.ReplayLines]). It also says in which window of the
// schedule a moment lies ([Scenario.Window]), which is what the two sides are compared by.
//
// Times in a scenario are nanoseconds relative to its start, which each side places where it likes. Base times
// are relative to the start, too.
package scenario
