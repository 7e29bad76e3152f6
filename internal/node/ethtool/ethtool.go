// SPDX-License-Identifier: Apache-2.0

// Package ethtool runs commands of linux/ethtool.h. Commands that only read need no privileges.
package ethtool

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ifreq is struct ifreq of linux/if.h with the address of a command's structure.
type ifreq struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [16]byte
}

// Do runs a command of an interface's driver. The structure consists of words of 32 bits, the first of which is the command; the
// kernel writes the others.
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
