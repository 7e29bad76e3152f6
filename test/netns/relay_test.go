// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// message is a message that a relay forwards.
type message struct {
	data []byte
	fds  []int
	// asked means that it comes from the connecting side.
	asked bool
}

// relay connects the clients of one unix socket to the listener at another and forwards messages with their
// descriptors.
type relay struct {
	listener int
	path     string
	// see is called with each message before it is forwarded. If it returns false, the connection forwards nothing more.
	see func(message) bool

	mu     sync.Mutex
	closed bool
}

func startRelay(t *testing.T, path, target string, see func(message) bool) *relay {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Chmod(path, 0o666), unix.Listen(fd, 16))
	}
	must(t, err)
	r := &relay{listener: fd, path: path, see: see}
	t.Cleanup(r.close)
	go r.accept(target)
	return r
}

// close stops listening. Existing connections continue.
func (r *relay) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.closed = true
	_ = unix.Unlink(r.path)
	_ = unix.Shutdown(r.listener, unix.SHUT_RD) // wakes up the accepting goroutine, which closes it
}

func (r *relay) accept(target string) {
	defer unix.Close(r.listener)
	for {
		client, _, err := unix.Accept4(r.listener, unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		server, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(server, &unix.SockaddrUnix{Name: target})
		}
		if err != nil {
			unix.Close(client)
			continue
		}
		go r.serve(client, server)
	}
}

// serve forwards in both directions until either end closes.
func (r *relay) serve(client, server int) {
	var both sync.WaitGroup
	for _, way := range []struct {
		from, to int
		asked    bool
	}{{client, server, true}, {server, client, false}} {
		both.Go(func() {
			for r.forward(way.from, way.to, way.asked) {
			}
			_ = unix.Shutdown(client, unix.SHUT_RDWR)
			_ = unix.Shutdown(server, unix.SHUT_RDWR)
		})
	}
	both.Wait()
	unix.Close(client)
	unix.Close(server)
}

func (r *relay) forward(from, to int, asked bool) bool {
	data, control := make([]byte, 1<<20), make([]byte, 256)
	count, controlCount, _, _, err := unix.Recvmsg(from, data, control, unix.MSG_CMSG_CLOEXEC)
	if err != nil || count == 0 {
		return errors.Is(err, unix.EINTR)
	}
	fds := descriptors(control[:controlCount])
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	if !r.see(message{data[:count], fds, asked}) {
		return false
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	return unix.Sendmsg(to, data[:count], rights, nil, unix.MSG_NOSIGNAL) == nil
}

func descriptors(control []byte) []int {
	parsed, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil
	}
	var all []int
	for i := range parsed {
		if fds, err := unix.ParseUnixRights(&parsed[i]); err == nil {
			all = append(all, fds...)
		}
	}
	return all
}

// Steps of a hand-over, by the message that begins each: daemon/handover/handover_records.h.
const (
	stepRequest = "request"
	stepFirst   = "the first record"
	stepEnd     = "end"
	stepReady   = "ready"
	stepStands  = "stands"
	stepTaken   = "taken"
)

// step returns the step that a message of the control socket begins, or "".
func step(m message) string {
	if bytes.HasPrefix(m.data, []byte("{")) {
		if bytes.Contains(m.data, []byte(`"take-over"`)) {
			return stepRequest
		}
		return ""
	}
	if len(m.data) < 16 {
		return ""
	}
	return map[uint32]string{1: stepFirst, 10: stepEnd, 11: stepReady, 12: stepStands, 13: stepTaken}[binary.LittleEndian.Uint32(m.data[12:])]
}
