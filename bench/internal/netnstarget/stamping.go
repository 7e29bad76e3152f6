// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// stampingDelay is what the kernel may take to begin to stamp frames as they come off a link: a work queue switches it
// on for the first who wants it. Far more than it takes on a machine that is not overloaded.
const stampingDelay = 200 * time.Millisecond

// stamping has the kernel stamp frames as they come off a link as long as it is open, so that it does not begin anew with
// each tap, while there are frames already.
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

// stamp switches the stamps on for runs that are sampled, and off for the others, which are to cost nothing.
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
