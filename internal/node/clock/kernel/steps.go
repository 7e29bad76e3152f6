// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// WaitForSteps calls stepped each time that CLOCK_REALTIME was set or stepped, until the context ends.
func WaitForSteps(ctx context.Context, stepped func()) error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("make a timer that steps cancel: %w", err)
	}
	timer := os.NewFile(uintptr(fd), "timer of steps")
	defer timer.Close()
	stop := context.AfterFunc(ctx, func() { timer.Close() })
	defer stop()
	for ctx.Err() == nil {
		if err := arm(timer); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		var expirations [8]byte
		_, err := timer.Read(expirations[:])
		if errors.Is(err, unix.ECANCELED) {
			stepped()
		} else if err != nil && ctx.Err() == nil {
			return fmt.Errorf("wait for steps of the clock: %w", err)
		}
	}
	return nil
}

// arm lets the timer end on a day that does not come, or by a step.
func arm(timer *os.File) error {
	raw, err := timer.SyscallConn()
	if err != nil {
		return fmt.Errorf("set the timer that steps cancel: %w", err)
	}
	const never = 1 << 40 // seconds
	var set error
	if err := raw.Control(func(fd uintptr) {
		set = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET,
			&unix.ItimerSpec{Value: unix.Timespec{Sec: never}}, nil)
	}); err != nil {
		return fmt.Errorf("set the timer that steps cancel: %w", err)
	}
	if errors.Is(set, unix.ECANCELED) { // a step between the last read and now: the next read says so
		return nil
	}
	if set != nil {
		return fmt.Errorf("set the timer that steps cancel: %w", set)
	}
	return nil
}

// Steps tells by how much CLOCK_TAI was stepped, the clock of transmit times: with CLOCK_REALTIME, or by another TAI offset. A leap second
// is none. Rate corrections act on it and CLOCK_BOOTTIME alike, so their difference changes by steps only, also over a suspend.
type Steps struct {
	// Difference reads CLOCK_TAI - CLOCK_BOOTTIME, and how exactly; nil: the kernel's.
	Difference func() (difference, exact time.Duration, err error)

	known           bool
	last, lastExact time.Duration
}

// smallestStep is above what reading two clocks one after the other errs when a thread is not interrupted.
const smallestStep = time.Microsecond

// Look returns the step since the last call, 0 if there was none. A step that is smaller than what reading errs is seen with a later one.
func (s *Steps) Look() (time.Duration, error) {
	read := s.Difference
	if read == nil {
		read = difference
	}
	now, exact, err := read()
	if err != nil {
		return 0, err
	}
	if !s.known {
		s.known, s.last, s.lastExact = true, now, exact
		return 0, nil
	}
	step := now - s.last
	if step.Abs() <= max(smallestStep, exact+s.lastExact) { // both readings may err
		if exact < s.lastExact {
			s.last, s.lastExact = now, exact
		}
		return 0, nil
	}
	s.last, s.lastExact = now, exact
	return step, nil
}

// difference reads CLOCK_TAI between two readings of CLOCK_BOOTTIME, and takes the best of some.
func difference() (result, exact time.Duration, err error) {
	const attempts = 5
	exact = time.Hour
	for range attempts {
		var before, between, after unix.Timespec
		if err := errors.Join(unix.ClockGettime(unix.CLOCK_BOOTTIME, &before), unix.ClockGettime(unix.CLOCK_TAI, &between),
			unix.ClockGettime(unix.CLOCK_BOOTTIME, &after)); err != nil {
			return 0, 0, fmt.Errorf("read clocks: %w", err)
		}
		took := time.Duration(after.Nano() - before.Nano())
		if took < exact {
			result, exact = time.Duration(between.Nano()-before.Nano())-took/2, took
		}
	}
	return result, exact, nil
}
