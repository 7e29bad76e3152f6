// SPDX-License-Identifier: Apache-2.0

package guestclock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// pageDevices are the memory regions of PCI devices, one of which is the page.
const pageDevices = "/sys/bus/pci/devices/*/resource2"

// FindPage maps, in a guest, the memory of the device of the type ivshmem, which needs no driver.
func FindPage() (*Page, error) {
	devices, err := filepath.Glob(pageDevices)
	if err != nil {
		return nil, err
	}
	for _, path := range devices {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if info.Size() == PageBytes {
			return Map(path)
		}
	}
	return nil, fmt.Errorf("no device has %d bytes of it", PageBytes)
}

// Sampling writes samples of the clock until there is no more room, or the clock cannot be read.
func Sampling(page *Page) error {
	for {
		sample, err := readClocks()
		if err == nil {
			err = page.Write(sample)
		}
		if err != nil {
			return fmt.Errorf("sample the clock: %w", err)
		}
		time.Sleep(SampleEvery)
	}
}

// readClocks returns the shortest of several readings, because an interruption makes a reading imprecise.
func readClocks() (best Sample, err error) {
	for range 4 {
		sample, err := readClocksOnce()
		if err != nil {
			return best, err
		}
		if best.After == 0 || sample.After-sample.Before < best.After-best.Before {
			best = sample
		}
	}
	return best, nil
}

func readClocksOnce() (Sample, error) {
	var tai, monotonic unix.Timespec
	before := TSC()
	first := unix.ClockGettime(unix.CLOCK_TAI, &tai)
	between := TSC()
	second := unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic)
	after := TSC()
	return Sample{Before: before, Between: between, After: after, TAI: tai.Nano(), Monotonic: monotonic.Nano()}, errors.Join(first, second)
}
