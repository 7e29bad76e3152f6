// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package guestclock

// Supported reports whether guests of this machine have its counter.
const Supported = false

// TSC exists on amd64 only.
func TSC() uint64 { panic("guestclock: no counter of this architecture is read") }
