// SPDX-License-Identifier: Apache-2.0

package linkwait

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// watch reports changes in a folder through inotify. The folder may be created later or again, so its parent is watched as well.
type watch struct {
	dir  string
	file *os.File
	// changed has an element if something has changed since it was read.
	changed chan struct{}
}

// Events that can make a file readable, or a folder watchable.
const (
	inFolder = unix.IN_CREATE | unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_ATTRIB
	inParent = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_ONLYDIR
)

// newWatch starts watching. It fails if the kernel has no inotify or the user's limit is reached.
func newWatch(dir string) (*watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", dir, err)
	}
	w := &watch{dir: dir, file: os.NewFile(uintptr(fd), "inotify"), changed: make(chan struct{}, 1)}
	if err := w.follow(); err != nil {
		w.file.Close()
		return nil, err
	}
	go w.read()
	return w, nil
}

// follow watches the folder, or its parent if the folder does not exist. Repeating it changes nothing. It must be called before the
// files are read, so that a file that is created in between is reported.
func (w *watch) follow() error {
	errDir := w.add(w.dir, inFolder|unix.IN_ONLYDIR)
	if errDir == nil {
		return nil
	}
	if err := w.add(filepath.Dir(w.dir), inParent); err != nil {
		return err
	}
	// The folder may have been created just before its parent was watched.
	_ = w.add(w.dir, inFolder|unix.IN_ONLYDIR)
	return nil
}

func (w *watch) add(path string, mask uint32) error {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	var errAdd error
	if err := raw.Control(func(fd uintptr) { _, errAdd = unix.InotifyAddWatch(int(fd), path, mask) }); err != nil {
		errAdd = err
	}
	if errAdd != nil {
		return fmt.Errorf("watch %s: %w", path, errAdd)
	}
	return nil
}

// read runs until the watch is closed. The content of events does not matter, because the caller reads all files again.
func (w *watch) read() {
	events := make([]byte, 4096)
	for {
		if _, err := w.file.Read(events); err != nil {
			return
		}
		select {
		case w.changed <- struct{}{}:
		default: // reported already
		}
	}
}

func (w *watch) close() { _ = w.file.Close() }
