// SPDX-License-Identifier: Apache-2.0

package hosttime

import "golang.org/x/sys/unix"

const (
	// slewPPB is the fastest slew of the kernel by adjtime(3), its phase-locked loop or a frequency within its limits, which may start at any
	// time.
	slewPPB = 500_000
	// usualTick is the default length of a tick in microseconds; each further microsecond makes the clock 100 ppm faster.
	usualTick = 10_000
	tickPPB   = 100_000
	// freqBits is the number of fraction bits of struct timex's freq, which is in ppm.
	freqBits = 16
)

// clockDrift returns the maximum drift of this machine's clock against its counter in ppb: its present rate, which chronyd may set, and
// slewPPB in addition.
func clockDrift() int64 {
	var state unix.Timex
	if _, err := unix.Adjtimex(&state); err != nil {
		return slewPPB // fails only for invalid changes, and there are none
	}
	rate := state.Freq*1000>>freqBits + (state.Tick-usualTick)*tickPPB
	return slewPPB + max(rate, -rate)
}
