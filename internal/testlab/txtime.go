// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// EnableTxtime sets SO_TXTIME on a socket for a clock, by the clock's Linux number. It makes direct system calls, which
// a preloaded library does not see; so do the users of TxtimeMessage.
func EnableTxtime(fd int, clock int32) error {
	option := make([]byte, 8) // struct sock_txtime: clock, flags
	binary.NativeEndian.PutUint32(option, uint32(clock))
	return unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_TXTIME, string(option))
}

// TxtimeMessage returns the control message (SCM_TXTIME) for a transmit time in nanoseconds of the socket's clock.
func TxtimeMessage(nanoseconds int64) []byte {
	message := make([]byte, unix.CmsgSpace(8))
	binary.NativeEndian.PutUint64(message, uint64(unix.CmsgLen(8)))
	binary.NativeEndian.PutUint32(message[8:], unix.SOL_SOCKET)
	binary.NativeEndian.PutUint32(message[12:], unix.SCM_TXTIME)
	binary.NativeEndian.PutUint64(message[16:], uint64(nanoseconds))
	return message
}

// ClockNow reads a clock by its Linux number, in nanoseconds.
func ClockNow(clock int32) int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(clock, &now)
	return now.Nano()
}

// TAIOffset returns CLOCK_TAI minus CLOCK_REALTIME in nanoseconds, a number of whole seconds.
func TAIOffset() int64 {
	return time.Duration(ClockNow(unix.CLOCK_TAI) - ClockNow(unix.CLOCK_REALTIME)).Round(time.Second).Nanoseconds()
}
