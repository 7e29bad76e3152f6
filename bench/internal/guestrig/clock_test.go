// SPDX-License-Identifier: Apache-2.0

package guestrig

import (
	"errors"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab/guestclock"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
)

// samplePage has a clock that is behind this machine's by an hour and too fast, read each million ticks of a counter that is ahead.
func samplePage(t *testing.T, ahead uint64, tai func(counter int64) int64) *guestclock.Page {
	t.Helper()
	page := &guestclock.Page{}
	for counter := uint64(0); counter <= 20_000_000; counter += 1_000_000 {
		if err := page.Write(guestclock.Sample{Before: counter + ahead, Between: counter + ahead, After: counter + ahead, TAI: tai(int64(counter))}); err != nil {
			t.Fatal(err)
		}
	}
	return page
}

func TestTrueClock(t *testing.T) {
	const ahead, origin, late = 777, 1_800_000_000_000_000_000, 3_600_000_000_000
	// Two ticks a nanosecond; the machine's clock gains a thousandth.
	guest := func(counter int64) int64 { return origin - late + counter/2 + counter/2000 }
	machine := &guestmachine.Session{Page: samplePage(t, ahead, guest), Counter: guestclock.Counter{Exchanges: 1, Least: ahead - 20, Most: ahead + 20}}
	clock := NewTrueClock(machine, HostReading{5_000_000, origin + 2_500_000}, HostReading{15_000_000, origin + 7_500_000})
	for _, counter := range []int64{5_000_000, 7_123_456, 14_999_998} {
		host, err := clock.Host(guest(counter))
		if err != nil {
			t.Fatal(err)
		}
		if wrong := host - (origin + counter/2); wrong < -3 || wrong > 3 {
			t.Errorf("at counter %d it is wrong by %d ns", counter, wrong)
		}
	}
	if clock.Within <= 0 {
		t.Error("the uncertainty of the counter is not counted")
	}
	for _, outside := range []int64{guest(20_000_000) + 1, guest(0)} {
		if _, err := clock.Host(outside); !errors.Is(err, ErrUnknownTime) {
			t.Errorf("a time at which nobody read the clock: %v", err)
		}
	}
}

func TestSweepRecognizesNamespaces(t *testing.T) {
	for name, want := range map[string]bool{"ktsn-vm-" + machineName("a", Tap): true, "ktsn-vm-" + machineName("b", Released): true, "ktsn-vm-plc": false,
		"ktsn-vm-at": false} {
		if namespaces.MatchString(name) != want {
			t.Errorf("%s: got %v", name, !want)
		}
	}
	if name := machineName("a", Released); len(name) > 10 {
		t.Errorf("%s is longer than the name of a virtual machine may be", name)
	}
}
