// SPDX-License-Identifier: Apache-2.0

// Package guestclock measures the clock of an emulated guest against the host's, without trusting a program in the
// guest. Guest and host map a page of memory, through a device of the type ivshmem:
//
//	guest: Sampling     reads its clock between two reads of its counter ──► Page.Samples
//	guest: Page.Answer  ◄── exchanges of counters ──► Page.Ask: host, Counter
//
// The guest's counter is the host's plus a constant, whose range the exchanges narrow; so each sample gives the guest's
// clock at a value of the host's counter (Reading). Amd64 only, as the guests are.
package guestclock
