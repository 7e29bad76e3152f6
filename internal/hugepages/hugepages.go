// SPDX-License-Identifier: Apache-2.0

package hugepages

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	countPath = "/proc/sys/vm/nr_hugepages"
	// lockPath is held while their number is changed.
	lockPath = "/run/lock/ktsn-hugepages.lock"
	// defaultSize is that of the pages, as the kernel's default must be.
	defaultSize = "Hugepagesize:       2048 kB"
)

// SetAside takes so many pages more and notes that. The error is one sentence where the machine has none, or too few.
func SetAside(note string, pages int) error {
	if text, err := os.ReadFile("/proc/meminfo"); err != nil || !strings.Contains(string(text), defaultSize) {
		return errors.New("the machine has no hugepages of 2 MB")
	}
	// First the note, so that pages are given back whatever happens in between.
	if err := write(note, pages); err != nil {
		return err
	}
	got, err := add(pages)
	if err == nil && got < pages {
		err = fmt.Errorf("the machine has memory for %d hugepages of 2 MB, and %d are needed", got, pages)
	}
	if err != nil {
		return errors.Join(err, write(note, got))
	}
	return nil
}

func write(note string, pages int) error {
	return os.WriteFile(note, []byte(strconv.Itoa(pages)), 0o600)
}

// add changes the number of pages and returns by how much.
func add(pages int) (int, error) {
	lock, err := os.OpenFile(lockPath, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return 0, fmt.Errorf("reserve hugepages: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return 0, fmt.Errorf("reserve hugepages: %w", err)
	}
	before, err := count()
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(countPath, []byte(strconv.Itoa(max(before+pages, 0))), 0o600); err != nil {
		return 0, fmt.Errorf("reserve hugepages: %w", err)
	}
	after, err := count()
	return after - before, err
}

func count() (int, error) {
	text, err := os.ReadFile(countPath)
	if err != nil {
		return 0, fmt.Errorf("count hugepages: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// GiveBack gives back what a note says, and removes it. That there is none is no error.
func GiveBack(note string) error {
	text, err := os.ReadFile(note)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	pages, errNumber := strconv.Atoi(strings.TrimSpace(string(text)))
	if err := errors.Join(err, errNumber, os.Remove(note)); err != nil {
		return fmt.Errorf("release hugepages: %w", err)
	}
	_, err = add(-pages)
	return err
}
