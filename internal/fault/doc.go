// SPDX-License-Identifier: Apache-2.0

// Package fault marks the places at which the tests kill a program, to see what it leaves half-done. In
// programs that are built as shipped the marks do nothing; the tests build theirs with the tag ktsn_faults.
package fault

// Variable names the point at which a program that was built with the tag ktsn_faults kills itself.
const Variable = "KTSN_KILL_AT"
