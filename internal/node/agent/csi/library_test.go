// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// watched counts what inotify tells of a file while something is done.
func watched(t *testing.T, path string, do func()) int {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	testlab.Must(t, err)
	defer unix.Close(fd)
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_ALL_EVENTS); err != nil {
		t.Fatal(err)
	}
	do()
	buffer := make([]byte, 4096)
	count, err := unix.Read(fd, buffer)
	if err != nil && err != unix.EAGAIN {
		t.Fatal(err)
	}
	return max(count, 0) / unix.SizeofInotifyEvent
}

// load is what the loader of a program does with the library.
func load(t *testing.T, path string) {
	t.Helper()
	if _, err := os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
}

func TestLibraryIsNotShared(t *testing.T) {
	n := newNode(t)
	n.publish(t, "watcher", "ktsn")
	n.publish(t, "other", "ktsn")
	podLibrary, other := filepath.Join(n.target("watcher", "ktsn"), libraryName), filepath.Join(n.target("other", "ktsn"), libraryName)
	if seen := watched(t, podLibrary, func() { load(t, podLibrary) }); seen == 0 {
		t.Error("a pod does not see its own programs start: the test cannot see anything")
	}
	if seen := watched(t, podLibrary, func() { load(t, other) }); seen != 0 {
		t.Errorf("a pod saw %d times what another does", seen)
	}
	n.unpublish(t, "watcher", "ktsn")
	n.unpublish(t, "other", "ktsn")
	n.checkClean(t)
}

func TestSharedLibraryIsReplaced(t *testing.T) {
	n := newNode(t)
	n.publish(t, "old", "ktsn")
	podLibrary := filepath.Join(n.driver.Volumes.PodDir("old"), libraryName)
	// As an agent of before has left it: a link to what is not the installed library any more, and a copy half made.
	replaced := filepath.Join(n.dir, "replaced")
	for _, err := range []error{
		os.WriteFile(replaced, []byte("of before"), 0o444), os.Remove(podLibrary), os.Link(replaced, podLibrary),
		os.WriteFile(podLibrary+".new", []byte("of b"), 0o400),
	} {
		testlab.Must(t, err)
	}
	if _, err := n.driver.Volumes.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(n.target("old", "ktsn"), libraryName))
	if err != nil || string(text) != "of before" {
		t.Errorf("the pod has %q, %v", text, err)
	}
	about, err := os.Stat(podLibrary)
	testlab.Must(t, err)
	if stat := about.Sys().(*syscall.Stat_t); stat.Nlink != 1 || stat.Uid != 0 || about.Mode().Perm() != 0o444 {
		t.Errorf("it has %d links, user %d, mode %v", stat.Nlink, stat.Uid, about.Mode())
	}
	entries, err := os.ReadDir(n.driver.Volumes.PodDir("old"))
	if err != nil || len(entries) != 2 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	n.unpublish(t, "old", "ktsn")
	n.checkClean(t)
}
