// SPDX-License-Identifier: Apache-2.0

package hugepages

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// machine has the paths of the kernel's page counts, and of the lock.
type machine struct {
	count, meminfo, lock string
	// between is called between two steps, in tests.
	between func(step string)
}

var this = machine{
	count: "/proc/sys/vm/nr_hugepages", meminfo: "/proc/meminfo", lock: "/run/lock/ktsn-hugepages.lock",
	between: func(string) {},
}

// defaultSize is the required default page size of the kernel.
const defaultSize = "Hugepagesize:       2048 kB"

// SetAside reserves more pages and writes the note. It fails if the machine has no such pages, or too few.
func SetAside(note string, pages int) error { return this.setAside(note, pages) }

// GiveBack releases the pages in a note, and removes it. A missing note is no error.
func GiveBack(note string) error { return this.giveBack(note) }

func (m *machine) setAside(note string, pages int) error {
	if text, err := os.ReadFile(m.meminfo); err != nil || !strings.Contains(string(text), defaultSize) {
		return errors.New("the machine has no hugepages of 2 MB")
	}
	note, err := filepath.Abs(note)
	if err != nil {
		return fmt.Errorf("reserve hugepages: %w", err)
	}
	turn, err := m.acquire()
	if err != nil {
		return fmt.Errorf("reserve hugepages: %w", err)
	}
	defer turn.end()
	got, err := turn.reserve(note, pages)
	if err != nil {
		return fmt.Errorf("reserve hugepages: %w", err)
	}
	if got < pages {
		return fmt.Errorf("the machine has memory for %d hugepages of 2 MB, and %d are needed", got, pages)
	}
	return nil
}

// reserve leaves neither pages nor note if the process dies. It returns the previous number of pages.
func (t *turn) reserve(note string, pages int) (int, error) {
	before, err := t.read()
	if err != nil {
		return 0, err
	}
	if err := t.writeIntention(intention{Note: note, Count: before}); err != nil {
		return 0, err
	}
	got, err := t.add(before, pages)
	if err == nil {
		err = os.WriteFile(note, []byte(strconv.Itoa(got)), 0o600)
		t.between("noted")
	}
	if err != nil {
		return 0, errors.Join(err, t.recover())
	}
	return got, t.clearIntention()
}

func (t *turn) add(before, pages int) (int, error) {
	if err := t.write(before + pages); err != nil {
		return 0, err
	}
	after, err := t.read()
	return after - before, err
}

func (m *machine) giveBack(note string) error {
	note, err := filepath.Abs(note)
	if err != nil {
		return fmt.Errorf("release hugepages: %w", err)
	}
	if !exists(note) && !m.hasIntention() {
		return nil
	}
	turn, err := m.acquire()
	if err != nil {
		return fmt.Errorf("release hugepages: %w", err)
	}
	defer turn.end()
	if err := turn.release(note); err != nil {
		return fmt.Errorf("release hugepages: %w", err)
	}
	return nil
}

// release is completed by the next holder of the lock if the process dies.
func (t *turn) release(note string) error {
	text, err := os.ReadFile(note)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	pages, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%s: %w; remove it when nobody uses hugepages, and set vm.nr_hugepages yourself", note, err)
	}
	now, err := t.read()
	if err != nil {
		return err
	}
	if err := t.writeIntention(intention{Note: note, Count: max(now-pages, 0)}); err != nil {
		return err
	}
	return t.recover()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
