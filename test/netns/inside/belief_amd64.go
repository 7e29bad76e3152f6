// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestclock"
)

// hostTime is the program's estimate of the host's time at a value of the machine's counter.
type hostTime struct {
	Before, After       uint64
	TAI, Ahead, BoundNs int64
	// Known means that frames are sent with it.
	Known bool
}

// belief writes the estimate as a line of JSON every 20 ms. Before that it answers exchanges of counters over memory
// that a device shares with the host.
func belief(arguments []string) error {
	flags := flag.NewFlagSet("belief", flag.ExitOnError)
	device := flags.String("device", "", "interface of ktsn-guest")
	answers := flags.Int("answers", 0, "exchanges of counters to answer first")
	duration := flags.Duration("for", time.Second, "how long to write")
	_ = flags.Parse(arguments) // it ends the program
	if *answers > 0 {
		page, err := findPage()
		if err == nil {
			err = page.Answer(*answers, time.Minute)
		}
		if err != nil {
			return err
		}
	}
	out := json.NewEncoder(os.Stdout)
	for until := time.Now().Add(*duration); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		estimate, err := readBelief(*device)
		if err == nil {
			err = out.Encode(estimate)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readBelief reads the clock between two reads of the counter several times and returns the quickest.
func readBelief(device string) (best hostTime, err error) {
	_, clock, err := capture.ReadGuest(device)
	if err != nil {
		return best, err
	}
	for range 4 {
		estimate := hostTime{Before: guestclock.TSC(), TAI: testlab.ClockNow(unix.CLOCK_TAI)}
		estimate.After = guestclock.TSC()
		if best.After == 0 || estimate.After-estimate.Before < best.After-best.Before {
			best = estimate
		}
	}
	now := uint64(testlab.ClockNow(unix.CLOCK_MONOTONIC))
	best.Ahead, best.BoundNs = clock.AheadNs[0], int64(clock.BoundAt(now))
	best.Known = clock.UntilNs > now
	return best, nil
}

// findPage maps the memory of the ivshmem device.
func findPage() (*guestclock.Page, error) {
	paths, err := filepath.Glob("/sys/bus/pci/devices/*/resource2")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("look for the shared memory: %w", err)
		}
		if info.Size() == guestclock.PageBytes {
			return guestclock.Map(path)
		}
	}
	return nil, errors.New("no device shares memory with the host")
}
