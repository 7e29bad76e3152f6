// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// adjTAI is ADJ_TAI of linux/timex.h.
const adjTAI = 0x0080

// taiSetter sets the kernel's TAI - UTC. linuxptp 3.1.1 sets it in two cases only: ptp4l with software time stamps, and phc2sys that
// sets the system's clock, both with a grandmaster whose time is traceable to the primary reference. It does not on the grandmaster
// itself, nor with a grandmaster whose offset is valid but whose time is not traceable.
type taiSetter struct {
	// adjust is adjtimex(2).
	adjust func(*unix.Timex) (int, error)
	// say logs changes.
	say func(string)
	// differs is the offset that the kernel lacked at the last update; 0: it was right.
	differs int
}

// update compares the kernel's offset. It sets an offset that differs twice in a row, because linuxptp may be about to set it.
func (k *taiSetter) update(known UTCOffset) error {
	// Around a leap second the kernel's offset changes at midnight, and the grandmaster's some seconds later.
	if !known.Valid || known.Leap {
		k.differs = 0
		return nil
	}
	state := unix.Timex{}
	if _, err := k.adjust(&state); err != nil {
		return fmt.Errorf("read the kernel's TAI offset: %w", err)
	}
	has := int(state.Tai)
	switch {
	case has == known.Seconds:
		k.differs = 0
		return nil
	case known.Seconds < minUTCOffset || known.Seconds > maxUTCOffset:
		k.differs = 0
		return fmt.Errorf("the grandmaster announces that TAI - UTC is %d s, which is invalid (it is %d s since 2017): the kernel keeps its %d s; "+
			"give the grandmaster the right utc_offset", known.Seconds, CurrentUTCOffset, has)
	case k.differs != known.Seconds:
		k.differs = known.Seconds
		return nil
	}
	k.differs = 0
	if _, err := k.adjust(&unix.Timex{Modes: adjTAI, Constant: int64(known.Seconds)}); err != nil {
		return fmt.Errorf("set the kernel's TAI offset to %d s: %w", known.Seconds, err)
	}
	// The kernel ignores values that it does not accept, without an error.
	after := unix.Timex{}
	if _, err := k.adjust(&after); err != nil {
		return fmt.Errorf("read back the kernel's TAI offset: %w", err)
	}
	if int(after.Tai) != known.Seconds {
		return fmt.Errorf("the kernel did not take %d s as its TAI offset: it has %d s", known.Seconds, after.Tai)
	}
	k.say(fmt.Sprintf("CLOCK_TAI is %d s ahead of CLOCK_REALTIME now, as the grandmaster announces; before it was %d s", known.Seconds, has))
	return nil
}
