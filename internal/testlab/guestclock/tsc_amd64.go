// SPDX-License-Identifier: Apache-2.0

package guestclock

// Supported reports whether guests of this machine have its counter.
const Supported = true

// TSC reads the processor's time stamp counter, after all loads before it. A guest's is the host's plus a constant: the
// emulation reads the host's and adds the same number each time.
func TSC() uint64
