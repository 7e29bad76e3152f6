// SPDX-License-Identifier: Apache-2.0

// Package kernel reads what the kernel knows of its clocks, and hears of steps of CLOCK_REALTIME. It sets nothing.
package kernel

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// State is what the kernel knows of CLOCK_REALTIME.
type State struct {
	// Synchronized tells whether somebody said so who keeps the clock (STA_UNSYNC is off); MaxError is the error that the kernel reckons
	// with since.
	Synchronized bool          `json:"synchronized"`
	MaxError     time.Duration `json:"maxErrorNs"`
	// FrequencyPPB is by how much the clock is made faster, in billionths: the frequency and the length of a tick together.
	FrequencyPPB float64 `json:"frequencyPpb"`
	// TAIOffset is CLOCK_TAI - CLOCK_REALTIME in seconds, 0 where nobody has set it.
	TAIOffset int `json:"taiOffset"`
}

// Read asks the kernel.
func Read() (State, error) {
	var timex unix.Timex // without a mode adjtimex changes nothing
	state, err := unix.Adjtimex(&timex)
	if err != nil {
		return State{}, fmt.Errorf("adjtimex: %w", err)
	}
	const timeError = 5 // TIME_ERROR
	return State{
		Synchronized: state != timeError && timex.Status&unix.STA_UNSYNC == 0,
		MaxError:     time.Duration(timex.Maxerror) * time.Microsecond,
		FrequencyPPB: frequency(&timex),
		TAIOffset:    int(timex.Tai),
	}, nil
}

// frequency adds what adjtimex has in two places: freq in 2^-16 ppm, and tick in microseconds for a hundredth of a second.
func frequency(timex *unix.Timex) float64 {
	const perPPM, usualTick, ppbPerTick = 65536.0, 10000, 100_000
	return float64(timex.Freq)/perPPM*1000 + float64(timex.Tick-usualTick)*ppbPerTick
}
