// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Read reads from a socket as unix.Read does, and again after a signal. Go interrupts threads by signals, and the kernel does not begin a
// read from a socket with SO_RCVTIMEO again.
func Read(socket int, buffer []byte) (int, error) {
	for {
		count, err := unix.Read(socket, buffer)
		if !errors.Is(err, unix.EINTR) {
			return count, err
		}
	}
}

// Receive is as Read, and says from whom the packet came.
func Receive(socket int, buffer []byte) (int, unix.Sockaddr, error) {
	for {
		count, from, err := unix.Recvfrom(socket, buffer, 0)
		if !errors.Is(err, unix.EINTR) {
			return count, from, err
		}
	}
}
