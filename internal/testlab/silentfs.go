// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// Requests of the FUSE protocol (linux/fuse.h) that a test can leave unanswered: opening a file, reading it, which
// mapping it needs as well, and flushing it, which each close of a descriptor sends.
const (
	FuseOpen  = 14
	FuseRead  = 15
	FuseFlush = 25
)

// Other requests of opening, mapping and closing a file.
const (
	fuseLookup, fuseGetattr, fuseInit          = 1, 3, 26
	fuseForget, fuseInterrupt, fuseBatchForget = 2, 36, 42
	fuseHeaderBytes                            = 40
)

// SilentFS is a file system in which every name is a file.
type SilentFS struct {
	Dir string
	// Unanswered is the kind of request that gets no answer: FuseOpen, FuseRead or FuseFlush; 0 for none.
	Unanswered atomic.Uint32
	// End unmounts the file system, and wakes processes that wait for it.
	End func()
}

// MountSilent mounts a SilentFS until the test ends. While FuseFlush is unanswered the test's process must not have a
// file of it open: a program that it starts would wait for the flush before it is executed, and the test's process with
// it.
func MountSilent(t *testing.T) *SilentFS {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("open /dev/fuse: %v", err)
	}
	fs := &SilentFS{Dir: t.TempDir()}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)
	if err := unix.Mount("ktsn-test", fs.Dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		t.Fatalf("mount a FUSE file system: %v", err)
	}
	served := make(chan struct{})
	fs.End = sync.OnceFunc(func() {
		// The unmount with MNT_FORCE wakes processes that wait for the file system, and the server's read.
		if err := unix.Unmount(fs.Dir, unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
		<-served
		unix.Close(fd)
	})
	t.Cleanup(fs.End)
	go func() {
		defer close(served)
		fs.serve(fd)
	}()
	return fs
}

// serve answers until the file system is unmounted.
func (fs *SilentFS) serve(fd int) {
	request := make([]byte, 128<<10)
	for {
		count, err := unix.Read(fd, request)
		if err == unix.EINTR || err == unix.EAGAIN || err == unix.ENOENT {
			continue
		}
		if err != nil || count < fuseHeaderBytes {
			return
		}
		if answer := answerOf(request[:count], fs.Unanswered.Load()); answer != nil {
			_, _ = unix.Write(fd, answer)
		}
	}
}

// answerOf returns the answer to a request, nil for none.
func answerOf(request []byte, unanswered uint32) []byte {
	order := binary.LittleEndian
	node := order.Uint64(request[16:])
	var body []byte
	problem := int32(0)
	switch asked := order.Uint32(request[4:]); asked {
	case unanswered, fuseForget, fuseInterrupt, fuseBatchForget:
		return nil
	case fuseInit:
		body = make([]byte, 64)
		order.PutUint32(body, 7)
		order.PutUint32(body[4:], 31)
		order.PutUint32(body[20:], 4096) // largest write
	case fuseLookup:
		body = make([]byte, 40, 128)
		order.PutUint64(body, 2)
		body = append(body, attributes(2)...)
	case fuseGetattr:
		body = append(make([]byte, 16, 104), attributes(node)...)
	case FuseFlush:
	case FuseOpen:
		body = make([]byte, 16)
	default:
		problem = -int32(unix.ENOSYS)
	}
	answer := make([]byte, 16, 16+len(body))
	order.PutUint32(answer, uint32(16+len(body)))
	order.PutUint32(answer[4:], uint32(problem))
	copy(answer[8:16], request[8:16])
	return append(answer, body...)
}

// attributes returns the attributes of the folder, which is node 1, or of a file.
func attributes(node uint64) []byte {
	mode := uint32(unix.S_IFREG | 0o555)
	if node == 1 {
		mode = unix.S_IFDIR | 0o555
	}
	raw := make([]byte, 88)
	binary.LittleEndian.PutUint64(raw, node)
	binary.LittleEndian.PutUint64(raw[8:], 4096)
	binary.LittleEndian.PutUint32(raw[60:], mode)
	binary.LittleEndian.PutUint32(raw[64:], 1)
	return raw
}
