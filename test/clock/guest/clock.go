// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package main

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/test/clock/shared"
)

// change applies a requested change to the clock.
func change(clock *shared.Clock) error {
	if clock.Tick != 0 {
		if _, err := unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_TICK, Tick: clock.Tick}); err != nil {
			return fmt.Errorf("set the clock's tick: %w", err)
		}
	}
	if clock.TAISeconds != 0 {
		if _, err := unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_TAI, Constant: clock.TAISeconds}); err != nil {
			return fmt.Errorf("set the offset of CLOCK_TAI: %w", err)
		}
	}
	if clock.StepNanoseconds != 0 {
		// A single call, so that no time passes between reading and setting.
		seconds, rest := clock.StepNanoseconds/1e9, clock.StepNanoseconds%1e9
		if rest < 0 {
			seconds, rest = seconds-1, rest+1e9
		}
		step := &unix.Timex{Modes: unix.ADJ_SETOFFSET | unix.ADJ_NANO, Time: unix.Timeval{Sec: seconds, Usec: rest}}
		if _, err := unix.Adjtimex(step); err != nil {
			return fmt.Errorf("step the clock: %w", err)
		}
	}
	return nil
}
