// SPDX-License-Identifier: Apache-2.0

// Package scenario describes comparisons of the shaper with the kernel's queueing disciplines: a schedule, the messages
// that are sent through it, and the expected deviations.
//
// It converts a description to the input of both sides: tc commands for the kernel ([Scenario.Commands]) and lines for
// ktsn-shaper-replay ([Scenario.ReplayLines]). It also maps times to windows of the schedule ([Scenario.Window]), by
// which the sides are compared.
//
// Times in a scenario are nanoseconds relative to its start, which each side chooses. Base times are relative to the
// start, too.
package scenario
