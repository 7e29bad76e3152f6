// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/test/clock/shared"
)

// findPage maps the memory behind the device of the type ivshmem, which needs no driver for it.
func findPage() (*shared.Page, error) {
	found, err := filepath.Glob(pageDevices)
	if err != nil {
		return nil, err
	}
	for _, path := range found {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if info.Size() == shared.PageBytes {
			return shared.Map(path)
		}
	}
	return nil, fmt.Errorf("no device has %d bytes of it", shared.PageBytes)
}

// sample writes what the clock says until there is no more room.
func sample(page *shared.Page) {
	for {
		one, err := readClocks()
		if err == nil {
			err = page.Write(one)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "guest: sample the clock:", err)
			return
		}
		time.Sleep(shared.SampleEvery)
	}
}

// readClocks reads a few times and returns what took least, for an interruption makes it imprecise.
func readClocks() (best shared.Sample, err error) {
	for range 4 {
		one, err := readClocksOnce()
		if err != nil {
			return best, err
		}
		if best.After == 0 || one.After-one.Before < best.After-best.Before {
			best = one
		}
	}
	return best, nil
}

func readClocksOnce() (shared.Sample, error) {
	var tai, monotonic unix.Timespec
	before := shared.TSC()
	first := unix.ClockGettime(unix.CLOCK_TAI, &tai)
	between := shared.TSC()
	second := unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic)
	after := shared.TSC()
	return shared.Sample{Before: before, Between: between, After: after, TAI: tai.Nano(), Monotonic: monotonic.Nano()}, errors.Join(first, second)
}

// change does to the clock what a request says.
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
		// In one call, so that no time passes between reading and setting.
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
