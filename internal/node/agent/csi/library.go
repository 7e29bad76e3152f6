// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// putLibrary copies the library into a pod's folder, unless the pod has one: a pod keeps the library that it started
// with. A hard link would let pods observe each other through the shared file: inotify, locks, and the pages in the
// processor's caches. The copy's memory is charged to the agent.
func (v *Volumes) putLibrary(path string) error {
	links, err := linkCount(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return copyFile(v.Library, path)
	case err != nil:
		return err
	case links > 1: // linked by an older agent
		return copyFile(path, path)
	}
	return nil
}

func linkCount(path string) (uint64, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	return uint64(info.Sys().(*syscall.Stat_t).Nlink), nil //nolint:unconvert // other architectures have another width
}

// copyFile copies a file atomically. It replaces the unfinished copy of a killed agent.
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
	// Regardless of the umask: pods' users load it.
	if err := errors.Join(err, copied.Chmod(0o444), copied.Close()); err != nil {
		return errors.Join(err, os.Remove(unfinished))
	}
	return os.Rename(unfinished, to)
}
