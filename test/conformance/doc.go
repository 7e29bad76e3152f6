// SPDX-License-Identifier: Apache-2.0

// Package conformance compares ktsnd's shaper with the kernel's taprio and etf: both get the same schedules and the
// same messages, and what leaves must leave in the same order and in the same window, and what is dropped must be
// dropped for the same reason, but for the deviations that a scenario declares. docs/conformance.md has the method
// and the deviations.
//
// The kernel's side is a virtual machine ([RunKernel]) in which test/conformance/guest plays all scenarios; ours
// ([RunShaper]) is the shaper itself in virtual time (ktsn-shaper-replay). [Compare] judges.
package conformance
