// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// taiOffset is CLOCK_TAI - CLOCK_REALTIME. By default they are equal; the offset reveals where one is mistaken for the
// other.
const taiOffset = 37_000_000_000

func setClock() error {
	if _, err := unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_TAI, Constant: taiOffset / 1e9}); err != nil {
		return fmt.Errorf("set the offset of CLOCK_TAI: %w", err)
	}
	return nil
}

// now returns CLOCK_TAI in nanoseconds.
func now() (int64, error) {
	var time unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_TAI, &time); err != nil {
		return 0, fmt.Errorf("read CLOCK_TAI: %w", err)
	}
	return time.Nano(), nil
}

// slice is the longest sleep in nanoseconds, so that lateness is noticed whenever it occurs.
const slice = 5_000_000

// sleepUntil sleeps in slices and returns the largest lateness of one.
func sleepUntil(taiNanoseconds int64) (latest int64, err error) {
	for {
		at, err := now()
		if err != nil || at >= taiNanoseconds {
			return latest, err
		}
		until := min(at+slice, taiNanoseconds)
		if err := sleep(until); err != nil {
			return latest, fmt.Errorf("sleep: %w", err)
		}
		woken, err := now()
		if err != nil {
			return latest, err
		}
		latest = max(latest, woken-until)
	}
}

func sleep(untilTAI int64) error {
	until := unix.NsecToTimespec(untilTAI)
	for {
		err := unix.ClockNanosleep(unix.CLOCK_TAI, unix.TIMER_ABSTIME, &until, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
