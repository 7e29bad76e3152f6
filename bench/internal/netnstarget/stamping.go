// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// stampingDelay is how long the kernel may take to begin to stamp arriving frames: a work queue enables it for the
// first user. It is far more than needed on a machine that is not overloaded.
const stampingDelay = 200 * time.Millisecond

// stamping keeps the kernel's stamping of arriving frames enabled while it is open, so that it does not start again
// with each tap, when frames arrive already.
type stamping struct{ socket int }

func startStamping() (*stamping, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("have frames stamped: %w", err)
	}
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return nil, errors.Join(fmt.Errorf("have frames stamped: %w", err), unix.Close(socket))
	}
	time.Sleep(stampingDelay)
	return &stamping{socket}, nil
}

// stamp enables the stamps for sampled runs, and disables them for the others, to save their cost.
func (l *Target) stamp(wanted bool) (err error) {
	switch {
	case wanted && l.stamping == nil:
		l.stamping, err = startStamping()
	case !wanted && l.stamping != nil:
		err = unix.Close(l.stamping.socket)
		l.stamping = nil
	}
	return err
}
