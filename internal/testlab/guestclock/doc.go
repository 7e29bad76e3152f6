// SPDX-License-Identifier: Apache-2.0

// Package guestclock knows the true time of what an emulated guest's clock says, without asking a program of the guest's what it
// believes. Guest and host have mapped a page of memory, behind a device of the type ivshmem:
//
//	guest: Sampling     reads its clock between two reads of its counter ──► Page.Samples
//	guest: Page.Answer  ◄── exchanges of counters ──► Page.Ask: host, Counter
//
// The guest's counter is the host's plus a constant, which exchanges bound; so each sample is a time of the guest's clock at a
// value of the host's counter (Reading). Amd64 only, as the guests are.
package guestclock
