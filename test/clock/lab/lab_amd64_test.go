// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestclock"
)

func TestExchangesBoundTheConstant(t *testing.T) {
	const constant = -5_000_000_000
	var counter guestclock.Counter
	for _, exchange := range []guestclock.Exchange{
		{Before: 10_000_000_000, Guest: 5_000_000_900, After: 10_000_001_000},
		{Before: 20_000_000_000, Guest: 15_000_000_100, After: 20_000_001_000},
	} {
		counter.Narrow(exchange)
	}
	if counter.Least != constant-100 || counter.Most != constant+100 || counter.Exchanges != 2 {
		t.Errorf("the constant %d was bounded by %+v", constant, counter)
	}
	if got := counter.Host(10_000_000_000); got != 15_000_000_000 {
		t.Errorf("the host's counter is %d", got)
	}
	counter.Narrow(guestclock.Exchange{Before: 30_000_000_000, Guest: 25_000_005_000, After: 30_000_001_000})
	if counter.Width() >= 0 {
		t.Errorf("a counter that went on by itself is one with a constant: %+v", counter)
	}
}

// clockOf returns readings, one each 20 ms, of a clock that is ahead of the host's by nanoseconds and too fast by ppm.
func clockOf(ahead int64, ppm float64, readings int) []guestclock.Reading {
	all := make([]guestclock.Reading, readings)
	for i := range all {
		after := float64(i) * 20e6
		all[i] = guestclock.Reading{Host: int64(guestclock.Hertz() * after / 1e9), Within: 100, TAI: 1e18 + ahead + int64(after*(1+ppm/1e6))}
	}
	return all
}

func TestTheTrueErrorIsThatBetweenTwoReadings(t *testing.T) {
	truth := NewTruth(clockOf(0, 0, 100))
	subject := clockOf(5000, 100, 100)
	for i := range subject { // not at the same moments
		subject[i].Host += int64(guestclock.Hertz() * 0.007)
		subject[i].TAI += 7_000_700
	}
	wrong, within, known := truth.Error(subject[50])
	if want := 5000*time.Nanosecond + 1007*time.Millisecond*100/1_000_000; !known || (wrong-want).Abs() > 5*time.Nanosecond {
		t.Errorf("the error is %v (known: %v), and should be %v", wrong, known, want)
	}
	if want := 2 * guestclock.Duration(100); within != want { // each is rounded by itself
		t.Errorf("the error is uncertain by %v, and should be by %v", within, want)
	}
	if _, _, known := truth.Error(subject[99]); known {
		t.Error("the error is known after the last reading of the truth")
	}
	stepped := clockOf(0, 0, 100)
	for i := 50; i < 100; i++ {
		stepped[i].TAI += 1e9
	}
	if _, _, known := NewTruth(stepped).Error(subject[49]); known {
		t.Error("the error is known where the truth was stepped")
	}
}

// at returns a belief in a bound at the time of a reading.
func at(reading guestclock.Reading, bound time.Duration) Belief {
	return Belief{Host: reading.Host - 1, Report: clock.Report{BoundNs: int64(bound), DriftPPB: 10_000, Grandmaster: "gm"}}
}

func TestBeliefsAreComparedWithTheTruthOfTheirGrandmaster(t *testing.T) {
	truths := map[string]*Truth{"gm": NewTruth(clockOf(0, 0, 200))}
	for name, test := range map[string]struct {
		ahead, jump       int64
		blind             bool                  // no belief counts the jump
		beliefs           map[int]time.Duration // at readings
		compared, wrong   int
		longest, shortest time.Duration // for which a step was not seen
	}{
		"a bound above the error":             {ahead: 5000, beliefs: map[int]time.Duration{0: 6 * time.Microsecond}, compared: 199},
		"a bound below it, until it aged":     {ahead: 5000, beliefs: map[int]time.Duration{0: 3500 * time.Nanosecond}, compared: 199, wrong: 8},
		"an unknown bound":                    {ahead: 5000, beliefs: map[int]time.Duration{0: -1}},
		"a belief that comes later":           {ahead: 5000, beliefs: map[int]time.Duration{100: 6 * time.Microsecond}, compared: 99},
		"one that is followed by a wrong one": {ahead: 5000, beliefs: map[int]time.Duration{0: 6 * time.Microsecond, 190: time.Microsecond}, compared: 199, wrong: 9},
		"a step that is seen 40 ms later": {jump: 1e9, beliefs: map[int]time.Duration{0: time.Microsecond, 102: 2 * time.Second},
			compared: 197, shortest: 39 * time.Millisecond, longest: 41 * time.Millisecond},
		"a belief right before a step": {jump: 1e9, beliefs: map[int]time.Duration{0: time.Microsecond, 100: time.Microsecond, 102: 2 * time.Second},
			compared: 197, shortest: 39 * time.Millisecond, longest: 41 * time.Millisecond},
		"a step that no belief counts": {jump: 1e9, blind: true, beliefs: map[int]time.Duration{0: time.Microsecond, 102: 2 * time.Second},
			compared: 100, shortest: 1900 * time.Millisecond, longest: 2 * time.Second},
		"a step that is seen, with a wrong bound": {jump: 1e9, beliefs: map[int]time.Duration{0: time.Microsecond, 102: time.Second / 2},
			compared: 197, wrong: 97, shortest: 39 * time.Millisecond, longest: 41 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			readings := clockOf(test.ahead, 0, 200)
			for i := range readings {
				if i >= 100 {
					readings[i].TAI += test.jump
				}
			}
			var beliefs []Belief
			for i := range readings {
				if bound, believed := test.beliefs[i]; believed {
					beliefs = append(beliefs, at(readings[i], bound))
					if i >= 102 && test.jump != 0 && !test.blind {
						beliefs[len(beliefs)-1].Steps = 1
					}
				}
			}
			got := Compare(readings, beliefs, truths)
			if len(got.Bounds) != test.compared || len(got.Wrong) != test.wrong || got.Unseen > test.longest || got.Unseen < test.shortest {
				t.Errorf("%d compared, %d wrong, a step unseen for %v; want %d, %d and %v to %v", len(got.Bounds), len(got.Wrong), got.Unseen,
					test.compared, test.wrong, test.shortest, test.longest)
			}
		})
	}
}
