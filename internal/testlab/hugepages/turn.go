// SPDX-License-Identifier: Apache-2.0

package hugepages

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// intention is the state to establish if its writer died: this number of pages, and no note. It is in the lock's file
// while the number of pages and the note contradict each other. Only the holder of the lock changes either, and
// establishes an existing intention first, so that nothing is left and nothing is released twice.
type intention struct {
	Note  string `json:"note"`
	Count int    `json:"count"`
}

// turn is held by one thread of one program at a time.
type turn struct {
	*machine
	file *os.File
}

// acquire waits for the lock, and completes what a process that died had begun.
func (m *machine) acquire() (*turn, error) {
	// In a folder that others can write.
	file, err := os.OpenFile(m.lock, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	t, success := &turn{machine: m, file: file}, false
	defer func() {
		if !success {
			t.end()
		}
	}()
	if err := t.checkOwner(); err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return nil, err
	}
	if err := t.recover(); err != nil {
		return nil, err
	}
	success = true
	return t, nil
}

// checkOwner rejects a lock file that somebody else has created: its content could be anything.
func (t *turn) checkOwner() error {
	info, err := t.file.Stat()
	if err != nil {
		return err
	}
	var about unix.Stat_t
	if err := unix.Fstat(int(t.file.Fd()), &about); err != nil {
		return err
	}
	if !info.Mode().IsRegular() || int(about.Uid) != os.Geteuid() || about.Nlink != 1 || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not this user's alone; find out who made it, and remove it", t.lock)
	}
	return nil
}

func (t *turn) end() { t.file.Close() }

// hasIntention reports whether there may be an intention. It takes no lock, so the intention may belong to a process at
// work.
func (m *machine) hasIntention() bool {
	info, err := os.Lstat(m.lock)
	return err == nil && info.Size() > 0
}

// writeIntention writes an intention with a single write. There must be none.
func (t *turn) writeIntention(what intention) error {
	text, err := json.Marshal(what)
	if err == nil {
		_, err = t.file.WriteAt(append(text, '\n'), 0)
	}
	t.between("intended")
	return err
}

// recover establishes an existing intention. It can be repeated.
func (t *turn) recover() error {
	text, err := io.ReadAll(io.NewSectionReader(t.file, 0, 1<<16))
	if err != nil || !strings.HasSuffix(string(text), "\n") {
		return errors.Join(err, t.clearIntention()) // not written completely: nothing has been done yet
	}
	var what intention
	if err := json.Unmarshal(text, &what); err != nil {
		return fmt.Errorf("%s: %w; remove it, and set vm.nr_hugepages yourself", t.lock, err)
	}
	now, err := t.read()
	if err == nil && now != what.Count {
		err = t.write(what.Count)
	}
	if err != nil {
		return err
	}
	if err := os.Remove(what.Note); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	t.between("removed")
	return t.clearIntention()
}

// clearIntention removes the intention, after pages and note agree.
func (t *turn) clearIntention() error { return t.file.Truncate(0) }

func (t *turn) read() (int, error) {
	text, err := os.ReadFile(t.count)
	if err != nil {
		return 0, fmt.Errorf("count hugepages: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func (t *turn) write(pages int) error {
	err := os.WriteFile(t.count, []byte(strconv.Itoa(pages)), 0o600)
	t.between("counted")
	return err
}
