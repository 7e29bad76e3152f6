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

// socket is a unix socket that a server listens on. Two agents may be on a node for a while, when a pod was deleted by force: the
// newer one moves its socket to the path, and the older one does not touch that any more.
type socket struct {
	path string
	// made is the file, which tells it from another one with the path.
	made   fs.FileInfo
	server *grpc.Server
	// served is closed when the server has ended.
	served chan struct{}
}

// serve listens on a path, in place of a socket that is there.
func serve(server *grpc.Server, path string) (*socket, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("make a folder for the socket: %w", err)
	}
	listener, info, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	s := &socket{path: path, made: info, server: server, served: make(chan struct{})}
	go func() {
		defer close(s.served)
		_ = server.Serve(listener) // ends with Stop
	}()
	return s, nil
}

// listen binds a socket beside its path and moves it there, so that there is one at any time. Its name begins with a dot, which
// kubelet leaves out.
func listen(path string) (listener *net.UnixListener, info fs.FileInfo, err error) {
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	err = locked(path, func() error {
		if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an agent that was killed
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

// missing tells that the path leads nowhere: neither to this socket nor to that of another agent.
func (s *socket) missing() bool {
	_, err := os.Lstat(s.path)
	return errors.Is(err, fs.ErrNotExist)
}

// stop removes the socket, answers what was asked, and ends the server. The socket of another agent stays.
func (s *socket) stop() error {
	err := s.remove()
	// What is half done would stay so where no agent follows.
	hurry := time.AfterFunc(answerTimeout, s.server.Stop)
	defer hurry.Stop()
	s.server.GracefulStop()
	<-s.served
	return err
}

// remove goes before the end of the server: as long as that listens, no other file has this one's number.
func (s *socket) remove() error {
	return locked(s.path, func() error {
		info, err := os.Lstat(s.path)
		if err == nil && os.SameFile(info, s.made) {
			err = os.Remove(s.path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// locked has no other agent change the socket meanwhile.
func locked(path string, change func() error) error {
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
