// SPDX-License-Identifier: Apache-2.0

// Package ethtool gives the kernel single commands of linux/ethtool.h. Those that only read need no privilege.
package ethtool

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ifreq is the kernel's: a name, and here the address of a structure.
type ifreq struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [16]byte
}

// Do gives a command to an interface's driver. The structures of most commands are numbers of 32 bits, the first of which is the
// command; the kernel writes the others.
func Do(name string, structure []uint32) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(&structure[0])
	request := ifreq{data: unsafe.Pointer(&structure[0])}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errno
	}
	return nil
}
