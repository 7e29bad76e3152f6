// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// putLibrary gives a pod a library of its own, unless it has one: a pod keeps the library that it began with. It is a copy and
// not a link, because by a file that pods share one of them sees what another does with it: inotify, locks, and which of
// its pages are in the processor's caches. The copy costs its size in memory, charged to the agent.
func (v *Volumes) putLibrary(path string) error {
	links, err := linksOf(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return copyFile(v.Library, path)
	case err != nil:
		return err
	case links > 1: // of an agent that linked them
		return copyFile(path, path)
	}
	return nil
}

func linksOf(path string) (uint64, error) {
	about, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	return uint64(about.Sys().(*syscall.Stat_t).Nlink), nil //nolint:unconvert // of another width on other machines
}

// copyFile puts a copy into place as a whole. What an agent that was killed has left of an attempt is taken by the next.
func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	unfinished := to + ".new"
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	copied, err := os.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	_, err = io.Copy(copied, source)
	// Whatever the umask is: pods' users load it.
	if err := errors.Join(err, copied.Chmod(0o444), copied.Close()); err != nil {
		return errors.Join(err, os.Remove(unfinished))
	}
	return os.Rename(unfinished, to)
}
