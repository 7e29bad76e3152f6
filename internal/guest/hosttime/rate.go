// SPDX-License-Identifier: Apache-2.0

package hosttime

import "golang.org/x/sys/unix"

const (
	// slewPPB is how fast the kernel slews a clock by adjtime(3), a phase-locked loop or a frequency within its ordinary limits: what
	// may begin at any moment.
	slewPPB = 500_000
	// usualTick is what a tick of USER_HZ adds to the clock, in microseconds; each microsecond more makes it faster by 100 ppm.
	usualTick = 10_000
	tickPPB   = 100_000
	// freqBits are those behind the point of struct timex's freq, which is in millionths.
	freqBits = 16
)

// clockDrift is by how many billionths this machine's clock may move against its counter in the next moments: as it is set now, by
// which chronyd slews it by more than the kernel itself would, and what may come in addition.
func clockDrift() int64 {
	var state unix.Timex
	if _, err := unix.Adjtimex(&state); err != nil {
		return slewPPB // it only fails for what is set
	}
	rate := state.Freq*1000>>freqBits + (state.Tick-usualTick)*tickPPB
	return slewPPB + max(rate, -rate)
}
