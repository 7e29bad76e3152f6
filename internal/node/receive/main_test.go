// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// The test binary also serves as the other process, which hands over a socket.
func TestMain(m *testing.M) {
	if os.Getenv(handsSocket) == "" {
		os.Exit(m.Run())
	}
	if err := handSocket(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func handSocket() error {
	socket, err := boundSocket()
	if err != nil {
		return err
	}
	return unix.Sendmsg(3, []byte{0}, unix.UnixRights(socket), nil, 0)
}
