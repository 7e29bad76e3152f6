// SPDX-License-Identifier: Apache-2.0

package hosttime

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// watchSets calls atOnce, in its own goroutine, each time that CLOCK_REALTIME and thus CLOCK_TAI is set, and then writes to the channel,
// until ctx is done (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET).
func watchSets(ctx context.Context, atOnce func()) (<-chan struct{}, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	arm := func() error {
		never := unix.ItimerSpec{Value: unix.Timespec{Sec: 1 << 40}}
		err := unix.TimerfdSettime(fd, unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &never, nil)
		if errors.Is(err, unix.ECANCELED) { // the clock was set meanwhile; the timer is armed
			return nil
		}
		return err
	}
	timer := os.NewFile(uintptr(fd), "timerfd")
	if err := arm(); err != nil {
		_ = timer.Close()
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = timer.Close() })
	set := make(chan struct{}, 1)
	go func() {
		defer stop()
		var expirations [8]byte
		for {
			if _, err := timer.Read(expirations[:]); !errors.Is(err, unix.ECANCELED) || arm() != nil {
				return
			}
			atOnce()
			select {
			case set <- struct{}{}:
			default: // an earlier one is still unread
			}
		}
	}()
	return set, nil
}
