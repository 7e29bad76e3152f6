// SPDX-License-Identifier: Apache-2.0

// Package schedule parses schedules of IEEE 802.1Qbv, checks whether a link can execute them, and draws them as text. It is the only
// parser of schedules: ktsnd gets them in nanoseconds (control.GateSchedule).
//
// A file holds the writable part of gate-parameter-table as the YANG module ieee802-dot1q-sched describes it, in YAML
// or in JSON (RFC 7951), which YAML includes. docs/guide/schedules.md describes it for users.
package schedule
