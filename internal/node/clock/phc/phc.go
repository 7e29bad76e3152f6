// SPDX-License-Identifier: Apache-2.0

// Package phc compares the clock of a network card with the system's. It sets neither.
package phc

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Reading is a comparison of a card's clock with CLOCK_REALTIME.
type Reading struct {
	// Ahead is the card's clock - CLOCK_REALTIME. Exact is by how much that may be wrong: half of what the reading took.
	Ahead, Exact time.Duration
	// Age is how long ago it was read; 0 where it was read just now.
	Age time.Duration
}

// Device is the clock of a network card.
type Device interface {
	// Compare reads the card's clock beside CLOCK_REALTIME.
	Compare() (Reading, error)
	Close()
}

// Open opens the clock of an interface's card.
func Open(name string) (Device, error) {
	index, err := number(name)
	if err != nil {
		return nil, fmt.Errorf("clock of the card of interface %s: %w", name, err)
	}
	file, err := os.OpenFile(fmt.Sprintf("/dev/ptp%d", index), os.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("clock of the card of interface %s: %w", name, err)
	}
	return &device{file: file}, nil
}

// number is the kernel's for the clock of an interface's card.
func number(name string) (int32, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolTsInfo(fd, name)
	switch {
	case err != nil:
		return 0, fmt.Errorf("ask how it stamps packets: %w", err)
	case info.Phc_index < 0:
		return 0, errors.New("it has none")
	}
	return info.Phc_index, nil
}

type device struct {
	file *os.File
	// extended : the card cannot stamp both clocks at once, so its reading lies between two of the system's.
	extended bool
}

func (d *device) Close() { d.file.Close() }

func (d *device) Compare() (Reading, error) {
	fd := int(d.file.Fd())
	if !d.extended {
		precise, err := unix.IoctlPtpSysOffsetPrecise(fd)
		switch {
		case err == nil:
			return Reading{Ahead: nanoseconds(precise.Device) - nanoseconds(precise.Realtime)}, nil
		case !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOTTY) && !errors.Is(err, unix.EINVAL):
			return Reading{}, fmt.Errorf("read %s beside the system's clock: %w", d.file.Name(), err)
		}
		d.extended = true
	}
	const samples = 5
	several, err := unix.IoctlPtpSysOffsetExtended(fd, samples)
	if err != nil {
		return Reading{}, fmt.Errorf("read %s beside the system's clock: %w", d.file.Name(), err)
	}
	return best(several.Ts[:min(samples, int(several.Samples))])
}

// best is the reading that took the shortest time: the system's clock, the card's, and the system's again.
func best(samples [][3]unix.PtpClockTime) (Reading, error) {
	shortest := Reading{Exact: -1}
	for _, sample := range samples {
		before, card, after := nanoseconds(sample[0]), nanoseconds(sample[1]), nanoseconds(sample[2])
		if exact := (after - before + 1) / 2; exact >= 0 && (shortest.Exact < 0 || exact < shortest.Exact) {
			shortest = Reading{Ahead: card - before - (after-before)/2, Exact: exact}
		}
	}
	if shortest.Exact < 0 {
		return Reading{}, errors.New("the system's clock was set while the card's was read")
	}
	return shortest, nil
}

// nanoseconds since 1970, which fit until 2262.
func nanoseconds(t unix.PtpClockTime) time.Duration {
	return time.Duration(t.Sec)*time.Second + time.Duration(t.Nsec)
}
