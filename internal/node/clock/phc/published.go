// SPDX-License-Identifier: Apache-2.0

package phc

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A container without privileges cannot open /dev/ptpN. ktsn-ptp can, and publishes a reading each second in the folder of ptp4l's
// socket: one line with Ahead, Exact and CLOCK_BOOTTIME in nanoseconds.

// oldestReading is the largest age of a published reading. driftPPB is the assumed drift between a card's and the system's clock meanwhile.
const (
	oldestReading = 3 * time.Second
	driftPPB      = 1000
)

func publishedAt(folder, name string) string { return filepath.Join(folder, "card-"+name) }

// Publish writes a reading of the clock of an interface's card.
func Publish(folder, name string, reading Reading) error {
	now, err := bootTime()
	if err != nil {
		return err
	}
	path := publishedAt(folder, name)
	line := fmt.Sprintf("%d %d %d\n", reading.Ahead, reading.Exact, now)
	if err := os.WriteFile(path+".new", []byte(line), 0o644); err != nil { //nolint:gosec // who reads it has no privileges
		return fmt.Errorf("publish the clock of %s: %w", name, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("publish the clock of %s: %w", name, err)
	}
	return nil
}

// Withdraw removes what Publish wrote.
func Withdraw(folder, name string) { _ = os.Remove(publishedAt(folder, name)) }

// Published is a card's clock as somebody else reads it.
func Published(folder, name string) Device { return &published{publishedAt(folder, name)} }

type published struct{ path string }

func (p *published) Close() {}

func (p *published) Compare() (Reading, error) {
	file, err := os.Open(p.path)
	if err != nil {
		return Reading{}, fmt.Errorf("read what is published of it: %w", err)
	}
	defer file.Close()
	line := make([]byte, 128)
	n, err := file.Read(line)
	if err != nil {
		return Reading{}, fmt.Errorf("read what is published of it: %w", err)
	}
	now, err := bootTime()
	if err != nil {
		return Reading{}, err
	}
	return parse(p.path, string(line[:n]), now)
}

// parse reads a line, and adds what the clocks may have moved since.
func parse(path, line string, now time.Duration) (Reading, error) {
	var reading Reading
	var at time.Duration
	if _, err := fmt.Sscanf(line, "%d %d %d\n", &reading.Ahead, &reading.Exact, &at); err != nil {
		return Reading{}, fmt.Errorf("what %s says is no reading of a clock: %w", path, err)
	}
	age := now - at
	switch {
	case age < 0 || reading.Exact < 0:
		return Reading{}, fmt.Errorf("what %s says is no reading of a clock", path)
	case age > oldestReading:
		return Reading{}, fmt.Errorf("%s was written %v ago; is ktsn-ptp still running?", path, age.Round(time.Millisecond))
	}
	reading.Exact += age * driftPPB / time.Second
	reading.Age = age
	return reading, nil
}

func bootTime() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, fmt.Errorf("read CLOCK_BOOTTIME: %w", err)
	}
	return time.Duration(now.Nano()), nil
}
