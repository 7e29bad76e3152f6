// SPDX-License-Identifier: Apache-2.0

// Package txtime sends with transmit times (SO_TXTIME) by bare system calls, past every preloaded library.
package txtime

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Ask has a socket take transmit times of a clock, by the clock's Linux number.
func Ask(fd int, clock int32) error {
	option := make([]byte, 8) // struct sock_txtime: clock, flags
	binary.NativeEndian.PutUint32(option, uint32(clock))
	return unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_TXTIME, string(option))
}

// Control is the control message (SCM_TXTIME) of a datagram with that transmit time, in nanoseconds of the socket's clock.
func Control(nanoseconds int64) []byte {
	message := make([]byte, unix.CmsgSpace(8))
	binary.NativeEndian.PutUint64(message, uint64(unix.CmsgLen(8)))
	binary.NativeEndian.PutUint32(message[8:], unix.SOL_SOCKET)
	binary.NativeEndian.PutUint32(message[12:], unix.SCM_TXTIME)
	binary.NativeEndian.PutUint64(message[16:], uint64(nanoseconds))
	return message
}

// Now reads a clock that each kernel has.
func Now(clock int32) int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(clock, &now)
	return now.Nano()
}
