// SPDX-License-Identifier: Apache-2.0

// Package schedule reads schedules of IEEE 802.1Qbv from files, checks them without a ktsnd by the rules that ktsnd
// has, and draws them as text.
//
// A file holds the writable part of gate-parameter-table as the YANG module ieee802-dot1q-sched describes it, in YAML
// or in JSON (RFC 7951), which YAML includes. docs/schedules.md describes it for users; the sentences of refusals are
// those of datapath/daemon/control/control_schedule.c, with file and line in front.
package schedule
