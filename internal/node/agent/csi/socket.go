// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
)

// socket is a unix socket that a server listens on. Two agents may be on a node for a while, if a pod was deleted by
// force: the newer agent replaces the socket, and the older one does not touch it any more.
type socket struct {
	path string
	// info identifies the file, because another one may have its path.
	info   fs.FileInfo
	server *grpc.Server
	// served is closed when the server has ended.
	served chan struct{}
}

// serve listens on a path and replaces an existing socket.
func serve(server *grpc.Server, path string) (*socket, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("create the socket's folder: %w", err)
	}
	listener, info, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	s := &socket{path: path, info: info, server: server, served: make(chan struct{})}
	go func() {
		defer close(s.served)
		_ = server.Serve(listener) // ends with Stop
	}()
	return s, nil
}

// listen binds a socket to a temporary name and moves it to its path, so that the path always has a socket. kubelet
// ignores the temporary name, which begins with a dot.
func listen(path string) (listener *net.UnixListener, info fs.FileInfo, err error) {
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	err = withLock(path, func() error {
		if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) { // from a killed agent
			return err
		}
		if listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"}); err != nil {
			return err
		}
		listener.SetUnlinkOnClose(false)
		if err := os.Chmod(temporary, 0o600); err != nil {
			return err
		}
		if info, err = os.Lstat(temporary); err != nil {
			return err
		}
		return os.Rename(temporary, path)
	})
	if err != nil && listener != nil {
		err = errors.Join(err, listener.Close())
	}
	return listener, info, err
}

// missing reports whether the path does not exist, as a socket of this or another agent.
func (s *socket) missing() bool {
	_, err := os.Lstat(s.path)
	return errors.Is(err, fs.ErrNotExist)
}

// stop removes the socket, finishes pending calls, and stops the server. The socket of another agent stays.
func (s *socket) stop() error {
	err := s.remove()
	// Finish pending calls: there may be no next agent to complete them.
	timer := time.AfterFunc(stopTimeout, s.server.Stop)
	defer timer.Stop()
	s.server.GracefulStop()
	<-s.served
	return err
}

// remove must precede the end of the server: until then no other file can have the same inode number.
func (s *socket) remove() error {
	return withLock(s.path, func() error {
		info, err := os.Lstat(s.path)
		if err == nil && os.SameFile(info, s.info) {
			err = os.Remove(s.path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// withLock calls change while no other agent changes the socket.
func withLock(path string, change func() error) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer folder.Close() // and the lock with it
	for {
		err := unix.Flock(int(folder.Fd()), unix.LOCK_EX)
		if err == nil {
			return change()
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("lock %s: %w", folder.Name(), err)
		}
	}
}
