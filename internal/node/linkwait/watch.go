// SPDX-License-Identifier: Apache-2.0

package linkwait

import (
	"fmt"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// watch reports changes in a folder. The folder may be created later or again, so its parent is watched as well.
type watch struct {
	dir     string
	watcher *fsnotify.Watcher
	// changed has an element if something has changed since it was read.
	changed chan struct{}
}

// newWatch starts watching. It fails if the kernel has no inotify or the user's limit is reached.
func newWatch(dir string) (*watch, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", dir, err)
	}
	w := &watch{dir, watcher, make(chan struct{}, 1)}
	if err := w.follow(); err != nil {
		w.close()
		return nil, err
	}
	go w.read()
	return w, nil
}

// follow watches the folder, or its parent if the folder does not exist. Repeating it changes nothing. It must be called before the
// files are read, so that a file that is created in between is reported.
func (w *watch) follow() error {
	if w.watcher.Add(w.dir) == nil {
		return nil
	}
	if err := w.watcher.Add(filepath.Dir(w.dir)); err != nil {
		return fmt.Errorf("watch %s: %w", filepath.Dir(w.dir), err)
	}
	// The folder may have been created just before its parent was watched.
	_ = w.watcher.Add(w.dir)
	return nil
}

// read runs until the watch is closed. The content of events does not matter, because the caller reads all files again.
func (w *watch) read() {
	for {
		select {
		case _, open := <-w.watcher.Events:
			if !open {
				return
			}
		case _, open := <-w.watcher.Errors: // such as events that were lost
			if !open {
				return
			}
		}
		select {
		case w.changed <- struct{}{}:
		default: // reported already
		}
	}
}

func (w *watch) close() { _ = w.watcher.Close() }
