// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// netnsDir is where `ip netns` and every CNI runtime expect named namespaces.
const netnsDir = "/run/netns"

// errGone is returned by a Namespace after Destroy.
var errGone = errors.New("the network namespace was destroyed")

// Namespace is a named network namespace with a thread inside it.
type Namespace struct {
	name string
	// handle refers to the namespace independently of its name.
	handle netns.NsHandle
	work   chan func()
	// end is closed to end the thread.
	end chan struct{}
	// gone is closed once the thread has ended.
	gone chan struct{}
	once sync.Once
}

// NewNamespace creates a network namespace with a name for `ip netns`.
func NewNamespace(name string) (*Namespace, error) {
	unlock, err := lockNetnsDir()
	if err != nil {
		return nil, fmt.Errorf("make network namespace %s: %w", name, err)
	}
	defer unlock()

	n := &Namespace{name: name, work: make(chan func()), end: make(chan struct{}), gone: make(chan struct{})}
	ready := make(chan error)
	go n.live(ready)
	if err := <-ready; err != nil {
		return nil, errors.Join(fmt.Errorf("make network namespace %s: %w", name, err), removeName(name))
	}
	return n, nil
}

// live is the thread inside the namespace. It never unlocks: when a locked goroutine ends, its thread, which is in a
// foreign namespace, ends as well.
func (n *Namespace) live(ready chan<- error) {
	runtime.LockOSThread()
	defer close(n.gone)
	handle, err := netns.NewNamed(n.name)
	n.handle = handle
	ready <- err
	if err != nil {
		return
	}
	for {
		select {
		case job := <-n.work:
			job()
		case <-n.end:
			return
		}
	}
}

// Name is the namespace's name for `ip netns`.
func (n *Namespace) Name() string { return n.name }

// Path is the namespace's file.
func (n *Namespace) Path() string { return filepath.Join(netnsDir, n.name) }

// Do runs f on the namespace's thread and waits for it. Calls take turns; after Destroy they fail.
func (n *Namespace) Do(f func() error) error {
	result := make(chan error, 1)
	select {
	case <-n.gone:
		return errGone
	case n.work <- func() { result <- f() }:
		return <-result
	}
}

// Start starts a program inside the namespace, in its own process group, so that Ctrl-C reaches only its parent, which
// then ends it in order. The kernel kills the program when the namespace's thread ends, so also when this process is
// killed.
func (n *Namespace) Start(command *exec.Cmd) error {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Setpgid = true
	command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return n.Do(command.Start)
}

// Destroy ends the thread and removes the namespace. Programs in it should have ended; the end of their thread kills
// them. It can be repeated.
func (n *Namespace) Destroy() error {
	var err error
	n.once.Do(func() {
		close(n.end)
		<-n.gone
		err = errors.Join(n.handle.Close(), removeName(n.name))
	})
	return err
}

// removeName unmounts and removes a namespace's file. A missing file is no error.
func removeName(name string) error {
	path := filepath.Join(netnsDir, name)
	for {
		// Mounts can be stacked; the last answer is EINVAL (a plain file) or ENOENT.
		err := unix.Unmount(path, unix.MNT_DETACH)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// lockNetnsDir makes /run/netns a shared mount like `ip netns`, under the lock that `ip netns` uses. A namespace that
// is mounted before that would stay mounted underneath forever.
func lockNetnsDir() (unlock func(), err error) {
	if err := os.MkdirAll(netnsDir, 0o755); err != nil {
		return nil, err
	}
	lock, err := os.Open(netnsDir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		lock.Close()
		return nil, fmt.Errorf("lock %s: %w", netnsDir, err)
	}
	if err := shareNetnsDir(); err != nil {
		lock.Close()
		return nil, err
	}
	return func() { lock.Close() }, nil
}

func shareNetnsDir() error {
	err := unix.Mount("", netnsDir, "none", unix.MS_SHARED|unix.MS_REC, "")
	if errors.Is(err, unix.EINVAL) { // not a mount point yet
		if err := unix.Mount(netnsDir, netnsDir, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("bind %s to itself: %w", netnsDir, err)
		}
		err = unix.Mount("", netnsDir, "none", unix.MS_SHARED|unix.MS_REC, "")
	}
	if err != nil {
		return fmt.Errorf("share %s: %w", netnsDir, err)
	}
	return nil
}
