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

// intention is what shall be when whoever wrote it has died: so many pages, and no note. It stands in the file of the lock
// while their number and the note are not of one mind. Only who holds the lock changes either, and does first what is written
// there, so that nothing is left and nothing is given back twice.
type intention struct {
	Note  string `json:"note"`
	Count int    `json:"count"`
}

// turn is held by one thread of one program at a time.
type turn struct {
	*machine
	file *os.File
}

// take waits until it is this one's turn, and finishes what one that died had begun.
func (m *machine) take() (*turn, error) {
	// In a folder into which others may write.
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
	if err := t.own(); err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return nil, err
	}
	if err := t.fulfil(); err != nil {
		return nil, err
	}
	success = true
	return t, nil
}

// own refuses a lock that somebody else has laid out, who could have written anything into it.
func (t *turn) own() error {
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

// intended tells whether there may be an intention; without the lock, so it may be that of somebody at work.
func (m *machine) intended() bool {
	info, err := os.Lstat(m.lock)
	return err == nil && info.Size() > 0
}

// intend writes an intention down, in one piece. There is none before it.
func (t *turn) intend(what intention) error {
	text, err := json.Marshal(what)
	if err == nil {
		_, err = t.file.WriteAt(append(text, '\n'), 0)
	}
	t.between("intended")
	return err
}

// fulfil does what an intention says, if there is one. Doing it again changes nothing.
func (t *turn) fulfil() error {
	text, err := io.ReadAll(io.NewSectionReader(t.file, 0, 1<<16))
	if err != nil || !strings.HasSuffix(string(text), "\n") {
		return errors.Join(err, t.done()) // not written to its end: nothing had been done yet
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
	return t.done()
}

// done takes the intention away: pages and note are of one mind.
func (t *turn) done() error { return t.file.Truncate(0) }

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
