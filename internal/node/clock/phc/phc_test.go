// SPDX-License-Identifier: Apache-2.0

package phc

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// at is a moment, in nanoseconds.
func at(ns int64) unix.PtpClockTime {
	return unix.PtpClockTime{Sec: ns / 1e9, Nsec: uint32(ns % 1e9)} //nolint:gosec // below 1e9
}

func TestTheShortestReadingCounts(t *testing.T) {
	const second = 1_800_000_000_000_000_000
	for name, test := range map[string]struct {
		samples [][3]unix.PtpClockTime
		want    Reading
		fails   bool
	}{
		"one, with the card ahead":              {[][3]unix.PtpClockTime{{at(second), at(second + 600), at(second + 200)}}, Reading{Ahead: 500, Exact: 100}, false},
		"the card behind":                       {[][3]unix.PtpClockTime{{at(second), at(second - 400), at(second + 200)}}, Reading{Ahead: -500, Exact: 100}, false},
		"the card in TAI":                       {[][3]unix.PtpClockTime{{at(second), at(second + 37e9), at(second)}}, Reading{Ahead: 37 * time.Second, Exact: 0}, false},
		"the second of three":                   {[][3]unix.PtpClockTime{{at(0), at(100), at(400)}, {at(0), at(10), at(20)}, {at(0), at(100), at(99)}}, Reading{Ahead: 0, Exact: 10}, false},
		"the clock was set back meanwhile":      {[][3]unix.PtpClockTime{{at(900), at(100), at(100)}, {at(0), at(10), at(20)}}, Reading{Ahead: 0, Exact: 10}, false},
		"the clock was set back in all":         {[][3]unix.PtpClockTime{{at(900), at(100), at(100)}}, Reading{}, true},
		"a device that gives no reading at all": {nil, Reading{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := best(test.samples)
			if (err != nil) != test.fails || (!test.fails && got != test.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

func TestAnInterfaceWithoutAClockIsNamed(t *testing.T) {
	for name, test := range map[string]struct{ name, want string }{
		"one without a clock": {"lo", "interface lo: it has none"},
		"one that is not":     {"nowhere0", "interface nowhere0: ask how it stamps packets"},
		"a name too long":     {"an-interface-of-a-long-name", "an-interface-of-a-long-name"},
	} {
		t.Run(name, func(t *testing.T) {
			device, err := Open(test.name)
			if err == nil {
				device.Close()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
