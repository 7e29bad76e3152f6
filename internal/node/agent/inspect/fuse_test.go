// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Requests of the FUSE protocol (linux/fuse.h) that opening and mapping a file takes.
const (
	fuseLookup, fuseGetattr, fuseOpen, fuseRead = 1, 3, 14, 15
	fuseInit                                    = 26
	fuseForget, fuseInterrupt, fuseBatchForget  = 2, 36, 42
	fuseHeaderBytes                             = 40
)

// silentFS is a file system of which every name is a file that can be looked at and does not answer when it is opened, or when it is read.
type silentFS struct {
	dir string
	end func()
}

// mountSilent mounts one. With opens, files can be opened and mapped.
func mountSilent(t *testing.T, opens bool) *silentFS {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("open /dev/fuse: %v", err)
	}
	fs := &silentFS{dir: t.TempDir()}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)
	if err := unix.Mount("ktsn-test", fs.dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		t.Fatalf("mount a FUSE file system: %v", err)
	}
	served := make(chan struct{})
	fs.end = sync.OnceFunc(func() {
		// What waits for the file system is woken by the unmount with MNT_FORCE, and the server's read as well.
		if err := unix.Unmount(fs.dir, unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
		<-served
		unix.Close(fd)
	})
	t.Cleanup(fs.end)
	go func() {
		defer close(served)
		serveSilently(fd, opens)
	}()
	return fs
}

// serveSilently answers until the file system is unmounted.
func serveSilently(fd int, opens bool) {
	request := make([]byte, 128<<10)
	for {
		count, err := unix.Read(fd, request)
		if err == unix.EINTR || err == unix.EAGAIN || err == unix.ENOENT {
			continue
		}
		if err != nil || count < fuseHeaderBytes {
			return
		}
		if answer := answerOf(request[:count], opens); answer != nil {
			_, _ = unix.Write(fd, answer)
		}
	}
}

// answerOf is what the kernel gets, nil where it gets nothing.
func answerOf(request []byte, opens bool) []byte {
	order := binary.LittleEndian
	node := order.Uint64(request[16:])
	var body []byte
	problem := int32(0)
	switch order.Uint32(request[4:]) {
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
	case fuseOpen:
		if !opens {
			return nil
		}
		body = make([]byte, 16)
	case fuseRead, fuseForget, fuseInterrupt, fuseBatchForget:
		return nil
	default:
		problem = -int32(unix.ENOSYS)
	}
	answer := make([]byte, 16, 16+len(body))
	order.PutUint32(answer, uint32(16+len(body)))
	order.PutUint32(answer[4:], uint32(problem))
	copy(answer[8:16], request[8:16])
	return append(answer, body...)
}

// attributes of the folder, which is node 1, and of a file.
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
