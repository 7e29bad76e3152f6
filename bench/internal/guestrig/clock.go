// SPDX-License-Identifier: Apache-2.0

package guestrig

import (
	"errors"
	"fmt"
	"sort"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab/guestclock"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
)

// HostReading is this machine's counter and CLOCK_TAI at one moment.
type HostReading struct{ Counter, TAI int64 }

// A reading is repeated until it is short, because an interruption makes it imprecise.
const readings = 8

// ReadHost reads both.
func ReadHost() (HostReading, error) {
	var best HostReading
	shortest := uint64(1 << 62)
	for range readings {
		var tai unix.Timespec
		before := guestclock.TSC()
		if err := unix.ClockGettime(unix.CLOCK_TAI, &tai); err != nil {
			return best, fmt.Errorf("read CLOCK_TAI: %w", err)
		}
		if took := guestclock.TSC() - before; took < shortest {
			shortest, best = took, HostReading{int64(before + took/2), tai.Nano()}
		}
	}
	return best, nil
}

// TrueClock converts times of a machine's CLOCK_TAI to this machine's, by readings of both clocks.
type TrueClock struct {
	readings      []guestclock.Reading
	before, after HostReading
	// Within is the largest uncertainty so far.
	Within time.Duration
}

// NewTrueClock takes the readings of the machine's clock between two readings of this machine's.
func NewTrueClock(machine *guestmachine.Session, before, after HostReading) *TrueClock {
	samples := machine.Page.Samples(0)
	// Begin one sample before the first reading, so that the reading is covered; counters only grow.
	first := max(sort.Search(len(samples), func(i int) bool { return machine.Counter.Host(samples[i].Before) >= before.Counter })-1, 0)
	t := &TrueClock{before: before, after: after}
	for i := range samples[first:] {
		t.readings = append(t.readings, machine.Counter.Reading(&samples[first+i]))
	}
	return t
}

// ErrUnknownTime is returned for a time without readings of the machine's clock.
var ErrUnknownTime = errors.New("the machine's clock was not read around a time")

// Host returns this machine's CLOCK_TAI at a time of the machine's.
func (t *TrueClock) Host(tai int64) (int64, error) {
	at := sort.Search(len(t.readings), func(i int) bool { return t.readings[i].TAI >= tai })
	if at == 0 || at == len(t.readings) {
		return 0, fmt.Errorf("%w (%d, of %d readings)", ErrUnknownTime, tai, len(t.readings))
	}
	previous, next := t.readings[at-1], t.readings[at]
	t.Within = max(t.Within, guestclock.Duration(max(previous.Within, next.Within)))
	counter := previous.Host + interpolate(tai-previous.TAI, next.TAI-previous.TAI, next.Host-previous.Host)
	return t.before.TAI + interpolate(counter-t.before.Counter, t.after.Counter-t.before.Counter, t.after.TAI-t.before.TAI), nil
}

// interpolate scales part of whole to another whole.
func interpolate(part, whole, other int64) int64 {
	if whole == 0 {
		return 0
	}
	return int64(float64(part) / float64(whole) * float64(other))
}
