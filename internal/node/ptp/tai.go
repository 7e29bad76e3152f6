// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// adjTAI is ADJ_TAI of linux/timex.h.
const adjTAI = 0x0080

// taiSetter gives the kernel TAI - UTC. linuxptp 3.1.1 does so in two cases only: ptp4l with software time stamps, and phc2sys that
// sets the system's clock, both by a grandmaster whose time is traceable to the primary reference. On the grandmaster itself, and
// behind one whose offset is valid but whose time is not traceable, nobody would.
type taiSetter struct {
	// adjust is adjtimex(2).
	adjust func(*unix.Timex) (int, error)
	// say is told what was changed.
	say func(string)
	// differs is the offset that the kernel did not have at the last look; 0: it had the right one.
	differs int
}

// look compares the kernel's offset. An offset that differs is set at the second look in succession: linuxptp may be about to.
func (k *taiSetter) look(known UTCOffset) error {
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
		return fmt.Errorf("the grandmaster announces that TAI - UTC is %d s, which cannot be (it is %d s since 2017): the kernel keeps its %d s; "+
			"give the grandmaster the right utc_offset", known.Seconds, CurrentUTCOffset, has)
	case k.differs != known.Seconds:
		k.differs = known.Seconds
		return nil
	}
	k.differs = 0
	if _, err := k.adjust(&unix.Timex{Modes: adjTAI, Constant: int64(known.Seconds)}); err != nil {
		return fmt.Errorf("set the kernel's TAI offset to %d s: %w", known.Seconds, err)
	}
	// The kernel passes over what it does not take, without an error.
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
