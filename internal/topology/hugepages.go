// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	hugepagesPath = "/proc/sys/vm/nr_hugepages"
	// hugepagesLock is held while their number is changed, by which topologies take turns.
	hugepagesLock = "/run/lock/ktsn-hugepages.lock"
	// reservedName is the file of how many pages a topology has reserved, mountName its hugetlbfs.
	reservedName = "hugepages"
	mountName    = "huge"
	// hugepageSize is that of the pages, as the kernel's default must be.
	hugepageSize = "Hugepagesize:       2048 kB"
)

// ReserveHugepages sets so many hugepages of 2 MB aside, beside those that are there, and mounts a hugetlbfs, whose
// folder it returns. Destroy, or SweepStale, gives them back. The error is one sentence where the machine has none.
func (t *Topology) ReserveHugepages(pages int) (dir string, err error) {
	if text, err := os.ReadFile("/proc/meminfo"); err != nil || !strings.Contains(string(text), hugepageSize) {
		return "", errors.New("the machine has no hugepages of 2 MB")
	}
	dir = filepath.Join(t.Dir, mountName)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if err := unix.Mount("none", dir, "hugetlbfs", 0, "pagesize=2M"); err != nil {
		return "", fmt.Errorf("mount a hugetlbfs: %w", err)
	}
	// First the note, so that pages are given back whatever happens in between.
	if err := noteHugepages(t.Dir, pages); err != nil {
		return "", err
	}
	got, err := addHugepages(pages)
	if err != nil {
		return "", err
	}
	if got < pages {
		return "", errors.Join(fmt.Errorf("the machine has memory for %d hugepages of 2 MB, and %d are needed", got, pages),
			noteHugepages(t.Dir, got))
	}
	return dir, nil
}

func noteHugepages(dir string, pages int) error {
	return os.WriteFile(filepath.Join(dir, reservedName), []byte(strconv.Itoa(pages)), 0o600)
}

// addHugepages changes the number of pages and returns by how much.
func addHugepages(pages int) (int, error) {
	lock, err := os.OpenFile(hugepagesLock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return 0, fmt.Errorf("reserve hugepages: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return 0, fmt.Errorf("reserve hugepages: %w", err)
	}
	before, err := hugepages()
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(hugepagesPath, []byte(strconv.Itoa(max(before+pages, 0))), 0o600); err != nil {
		return 0, fmt.Errorf("reserve hugepages: %w", err)
	}
	after, err := hugepages()
	return after - before, err
}

func hugepages() (int, error) {
	text, err := os.ReadFile(hugepagesPath)
	if err != nil {
		return 0, fmt.Errorf("count hugepages: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// ReleaseHugepages gives them back before the topology goes.
func (t *Topology) ReleaseHugepages() error {
	return errors.Join(releaseHugepages(t.Dir), os.RemoveAll(filepath.Join(t.Dir, mountName)))
}

// releaseHugepages gives back what the topology of that folder has reserved. Repeating it does nothing.
func releaseHugepages(dir string) error {
	mounted := filepath.Join(dir, mountName)
	err := unix.Unmount(mounted, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", mounted, err)
	}
	note := filepath.Join(dir, reservedName)
	text, err := os.ReadFile(note)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	pages, errNumber := strconv.Atoi(strings.TrimSpace(string(text)))
	if err := errors.Join(err, errNumber, os.Remove(note)); err != nil {
		return fmt.Errorf("release hugepages: %w", err)
	}
	_, err = addHugepages(-pages)
	return err
}
