// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// held takes another program's lock, until it is closed.
func held(t *testing.T, dir string) *os.File {
	t.Helper()
	folder, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	if err := unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	return folder
}

func TestLockOfKilledProgram(t *testing.T) {
	dir := t.TempDir()
	other := held(t, dir)
	time.AfterFunc(5*lockPoll, func() { other.Close() })
	unlock, err := lock("c", dir)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestHeldLockIsRefused(t *testing.T) {
	dir := t.TempDir()
	held(t, dir)
	if _, err := lock("c", dir); !errors.Is(err, errBusy) {
		t.Errorf("%v", err)
	}
}

func TestMissingFolderIsLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	unlock, err := lock("c", dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := lock("c", dir); !errors.Is(err, errBusy) {
		t.Errorf("it is locked twice: %v", err)
	}
}
