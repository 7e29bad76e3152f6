// SPDX-License-Identifier: Apache-2.0

// Package privilege drops capabilities. Kubernetes lets only privileged containers create mounts that others see, and
// gives these all capabilities; a program that needs few drops the rest itself, permanently.
package privilege

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Capability is a Linux capability.
type Capability uint

// Capabilities that programs of this project keep.
const (
	SysAdmin       Capability = unix.CAP_SYS_ADMIN
	NetAdmin       Capability = unix.CAP_NET_ADMIN
	NetRaw         Capability = unix.CAP_NET_RAW
	DACReadSearch  Capability = unix.CAP_DAC_READ_SEARCH
	SysPtrace      Capability = unix.CAP_SYS_PTRACE
	SetUID         Capability = unix.CAP_SETUID
	SetGID         Capability = unix.CAP_SETGID
	Kill           Capability = unix.CAP_KILL
	Chown          Capability = unix.CAP_CHOWN
	SysTime        Capability = unix.CAP_SYS_TIME
	NetBindService Capability = unix.CAP_NET_BIND_SERVICE
)

// Reduce drops all capabilities but those to keep, for all threads and for started programs, which never get more than
// this program has. A capability that the program does not have is not an error.
func Reduce(keep ...Capability) error {
	var kept uint64
	for _, capability := range keep {
		kept |= 1 << capability
	}
	// Drop the bounding set first: that needs CAP_SETPCAP.
	if err := dropBounding(kept); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("read this program's capabilities: %w", err)
	}
	for i := range data {
		data[i].Permitted &= uint32(kept >> (32 * i))
		data[i].Effective, data[i].Inheritable = data[i].Permitted, 0
	}
	err := onAllThreads(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
	if err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := onAllThreads(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// dropBounding drops all other capabilities from the bounding set. A program that a reduced program started may not do
// that, and need not: no_new_privs is set.
func dropBounding(kept uint64) error {
	if set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && set == 1 {
		return nil
	}
	for capability := range uintptr(unix.CAP_LAST_CAP + 1) {
		if kept&(1<<capability) != 0 {
			continue
		}
		if err := onAllThreads(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, capability, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("drop capability %d from the bounding set: %w", capability, err)
		}
	}
	return nil
}

// errCgo is returned with cgo: the Go runtime does not know all threads then.
var errCgo = errors.New("this needs a program without cgo: build it with CGO_ENABLED=0")

// onAllThreads makes a system call on every thread. It fails in a program with cgo.
func onAllThreads(number, a, b, c uintptr) error {
	_, _, errno := syscall.AllThreadsSyscall6(number, a, b, c, 0, 0, 0)
	switch errno {
	case 0:
		return nil
	case unix.ENOTSUP:
		return errCgo
	default:
		return errno
	}
}
