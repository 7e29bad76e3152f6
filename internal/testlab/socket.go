// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Read is unix.Read for a socket, repeated after a signal. Go interrupts threads by signals, and the kernel does not
// restart reads from a socket with SO_RCVTIMEO.
func Read(socket int, buffer []byte) (int, error) {
	for {
		count, err := unix.Read(socket, buffer)
		if !errors.Is(err, unix.EINTR) {
			return count, err
		}
	}
}

// Receive is Read that also returns the sender.
func Receive(socket int, buffer []byte) (int, unix.Sockaddr, error) {
	for {
		count, from, err := unix.Recvfrom(socket, buffer, 0)
		if !errors.Is(err, unix.EINTR) {
			return count, from, err
		}
	}
}
