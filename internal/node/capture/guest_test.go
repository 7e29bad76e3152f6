// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// newGuest is a wire whose pod is a virtual machine. It does not know the host's time.
func newGuest(t *testing.T) (*wire, *Guest) {
	t.Helper()
	w := newWire(t, Timed)
	var guest *Guest
	do(t, w.pod, func() (err error) {
		if err = AttachGuest(podEnd); err == nil {
			guest, err = OpenGuest(podEnd)
		}
		return err
	})
	t.Cleanup(func() { _ = guest.Close() })
	return w, guest
}

func (w *wire) guestCount(t *testing.T) (count Count) {
	t.Helper()
	do(t, w.pod, func() (err error) {
		count, _, err = ReadGuest(podEnd)
		return err
	})
	return count
}

// monotonicIn is CLOCK_MONOTONIC after that time.
func monotonicIn(after time.Duration) uint64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // no error for such a clock
	return uint64(now.Nano() + after.Nanoseconds())
}

func TestGuestRecord(t *testing.T) {
	const at = 1_700_000_000_123_456_789
	w, guest := newGuest(t)
	testlab.Must(t, guest.Set(GuestClock{UntilNs: monotonicIn(time.Minute), AheadNs: [3]int64{1000, -2000, 37_000_000_000}}))
	for name, test := range map[string]struct {
		message message
		what    byte
		time    uint64
	}{
		"CLOCK_TAI":                       {message{clock: unix.CLOCK_TAI}, 0x00, at + 1000},
		"CLOCK_MONOTONIC with a priority": {message{clock: unix.CLOCK_MONOTONIC, priority: 5}, 0x05, at - 2000},
		"CLOCK_REALTIME as a deadline":    {message{clock: unix.CLOCK_REALTIME, deadline: true}, 0x40, at + 37_000_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			test.message.payload, test.message.timeNs = bytes.Repeat([]byte("x"), 64), at
			w.send(t, &test.message)
			frames := w.sent(t)
			if len(frames) != 1 {
				t.Fatalf("%d frames left", len(frames))
			}
			withoutRecord(t, frames[0], test.what, test.time)
		})
	}
}

func TestGuestWithoutHostClock(t *testing.T) {
	w, guest := newGuest(t)
	timed := &message{payload: bytes.Repeat([]byte("x"), 64), clock: unix.CLOCK_TAI, timeNs: 1}
	for name, until := range map[string]uint64{"not yet": 0, "not any more": monotonicIn(-time.Millisecond)} {
		t.Run(name, func(t *testing.T) {
			testlab.Must(t, guest.Set(GuestClock{UntilNs: until}))
			before := w.guestCount(t).Refused[ReasonUnsure]
			w.send(t, timed)
			if got := w.guestCount(t).Refused[ReasonUnsure] - before; got != 1 {
				t.Errorf("%d frames are counted", got)
			}
			// The next one has a time.
			testlab.Must(t, guest.Set(GuestClock{UntilNs: monotonicIn(time.Minute)}))
			if frames := w.sent(t); len(frames) != 0 {
				t.Errorf("%d frames left", len(frames))
			}
		})
	}
}

func TestDetachGuest(t *testing.T) {
	w, _ := newGuest(t)
	do(t, w.pod, func() error { return errors.Join(DetachGuest(podEnd), DetachGuest(podEnd)) })
	do(t, w.pod, func() error {
		if _, _, err := ReadGuest(podEnd); !errors.Is(err, ErrUnattached) {
			t.Errorf("the program is still there: %v", err)
		}
		return nil
	})
}

func TestWidestBound(t *testing.T) {
	const boundNs, driftPPB = 5_000, 1_000_000
	w, guest := newGuest(t)
	at := monotonicIn(-time.Second)
	testlab.Must(t, guest.Set(GuestClock{UntilNs: monotonicIn(time.Minute), BoundNs: boundNs, AtNs: at, DriftPPB: driftPPB}))
	w.send(t, &message{payload: bytes.Repeat([]byte("x"), 64), clock: unix.CLOCK_TAI, timeNs: 1})
	if frames := w.sent(t); len(frames) != 1 {
		t.Fatalf("%d frames left", len(frames))
	}
	read := func(clearIt bool) (widest uint64) {
		do(t, w.pod, func() (err error) {
			widest, err = WidestBound(podEnd, clearIt)
			return err
		})
		return widest
	}
	// A second of drift by a thousandth, and a little more until the frame left and was read.
	clock := GuestClock{BoundNs: boundNs, AtNs: at, DriftPPB: driftPPB}
	if widest, most := read(true), clock.BoundAt(monotonicIn(0)); widest < boundNs+1_000_000 || widest > most {
		t.Errorf("the widest bound is %d ns, not from %d to %d", widest, boundNs+1_000_000, most)
	}
	if widest := read(false); widest != 0 {
		t.Errorf("the widest bound is %d ns after it was cleared", widest)
	}
}
