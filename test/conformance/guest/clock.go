// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// taiOffset is CLOCK_TAI - CLOCK_REALTIME, which are equal in a machine that was never told: set, so that a
// mistake of one for the other shows.
const taiOffset = 37_000_000_000

func setClock() error {
	if _, err := unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_TAI, Constant: taiOffset / 1e9}); err != nil {
		return fmt.Errorf("set the offset of CLOCK_TAI: %w", err)
	}
	return nil
}

// now is CLOCK_TAI in nanoseconds.
func now() (int64, error) {
	var time unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_TAI, &time); err != nil {
		return 0, fmt.Errorf("read CLOCK_TAI: %w", err)
	}
	return time.Nano(), nil
}

func sleepUntil(taiNanoseconds int64) error {
	until := unix.NsecToTimespec(taiNanoseconds)
	for {
		err := unix.ClockNanosleep(unix.CLOCK_TAI, unix.TIMER_ABSTIME, &until, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
