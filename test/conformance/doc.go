// SPDX-License-Identifier: Apache-2.0

// Package conformance compares ktsnd's shaper with the kernel's taprio and etf: both get the same schedules and
// messages. The messages must leave in the same order and in the same window, or be dropped for the same reason, except
// for the deviations that a scenario declares. docs/internals/conformance.md has the method and the deviations.
//
// The kernel runs in a virtual machine ([RunKernel]) in which test/conformance/guest plays all scenarios; the shaper
// runs in virtual time ([RunShaper], ktsn-shaper-replay). [Compare] compares them.
package conformance
