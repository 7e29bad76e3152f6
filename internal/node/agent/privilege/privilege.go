// SPDX-License-Identifier: Apache-2.0

// Package privilege gives up capabilities. Kubernetes lets only privileged containers make mounts that others see, and
// gives these everything; a program that needs little gives back the rest itself, for good.
package privilege

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Capability is one of Linux'.
type Capability uint

// Those that there is a use for.
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

// Reduce keeps some capabilities, as far as they are there, and gives up all others, for all threads and for programs
// that are started. No such program gets more than this one has, whatever its file says.
func Reduce(keep ...Capability) error {
	var wanted uint64
	for _, capability := range keep {
		wanted |= 1 << capability
	}
	// First the bounding set, while that is still allowed.
	if err := bound(wanted); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("look at this program's capabilities: %w", err)
	}
	for i := range data {
		data[i].Permitted &= uint32(wanted >> (32 * i))
		data[i].Effective, data[i].Inheritable = data[i].Permitted, 0
	}
	err := everywhere(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
	if err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	if err := everywhere(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return fmt.Errorf("give up ever having more: %w", err)
	}
	return nil
}

// bound gives up all but the wanted capabilities for programs that are started. A program that one started which had reduced itself
// may not, and need not: it can get no capability any more.
func bound(wanted uint64) error {
	if set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && set == 1 {
		return nil
	}
	for capability := range uintptr(unix.CAP_LAST_CAP + 1) {
		if wanted&(1<<capability) != 0 {
			continue
		}
		if err := everywhere(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, capability, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("give up capability %d for programs that are started: %w", capability, err)
		}
	}
	return nil
}

// errCgo is what a program with cgo is told, of whose threads the runtime of Go does not know all.
var errCgo = errors.New("that takes a program without cgo: build it with CGO_ENABLED=0")

// everywhere makes a system call on every thread. It needs a program without cgo, as the agent's is.
func everywhere(number, a, b, c uintptr) error {
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
