// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func TestTheKernelSaysHowItsClockIs(t *testing.T) {
	state, err := Read()
	testlab.Must(t, err)
	var realtime, tai unix.Timespec
	const clockTAI = 11
	testlab.Must(t, unix.ClockGettime(unix.CLOCK_REALTIME, &realtime))
	testlab.Must(t, unix.ClockGettime(clockTAI, &tai))
	if ahead := time.Duration(tai.Nano() - realtime.Nano()).Round(time.Second); ahead != time.Duration(state.TAIOffset)*time.Second {
		t.Errorf("CLOCK_TAI is %v ahead, adjtimex says %d s", ahead, state.TAIOffset)
	}
	if state.MaxError < 0 || state.FrequencyPPB < -1e8 || state.FrequencyPPB > 1e8 {
		t.Errorf("got %+v", state)
	}
}

func TestFrequencyIsThatOfBothPlaces(t *testing.T) {
	for name, test := range map[string]struct {
		timex unix.Timex
		want  float64
	}{
		"the usual":               {unix.Timex{Tick: 10000}, 0},
		"one ppm faster":          {unix.Timex{Tick: 10000, Freq: 65536}, 1000},
		"half a ppm slower":       {unix.Timex{Tick: 10000, Freq: -32768}, -500},
		"100 ppm faster, by tick": {unix.Timex{Tick: 10001}, 100_000},
		"both":                    {unix.Timex{Tick: 9999, Freq: 65536}, -99_000},
	} {
		t.Run(name, func(t *testing.T) {
			if got := frequency(&test.timex); got != test.want {
				t.Errorf("%v ppb, want %v", got, test.want)
			}
		})
	}
}

func TestAStepIsWhatTheDifferenceOfClocksChangesBy(t *testing.T) {
	var now, exact time.Duration
	steps := Steps{Difference: func() (time.Duration, time.Duration, error) { return now, exact, nil }}
	for _, look := range []struct {
		what       string
		now, exact time.Duration
		want       time.Duration
	}{
		{"the first look", 5 * time.Hour, 50, 0},
		{"nothing new", 5*time.Hour + 30, 50, 0},
		{"a step ahead", 5*time.Hour + 3*time.Second, 50, 3 * time.Second},
		{"a step back", 5 * time.Hour, 50, -3 * time.Second},
		{"a thread that was interrupted between the clocks", 5*time.Hour + 80*time.Microsecond, 100 * time.Microsecond, 0},
		{"a step of 2 us", 5*time.Hour + 2*time.Microsecond, 50, 2 * time.Microsecond},
		{"a step too small to be told from reading", 5*time.Hour + 2700, 50, 0},
		{"and another, which is seen with the one before", 5*time.Hour + 3400, 50, 1400},
	} {
		now, exact = look.now, look.exact
		if got, err := steps.Look(); err != nil || got != look.want {
			t.Errorf("%s: %v, %v, want %v", look.what, got, err, look.want)
		}
	}
}

func TestAnInexactReadingMakesNoStep(t *testing.T) {
	var now, exact time.Duration
	steps := Steps{Difference: func() (time.Duration, time.Duration, error) { return now, exact, nil }}
	for _, look := range []struct {
		what       string
		now, exact time.Duration
		want       time.Duration
	}{
		{"a first look that was interrupted", time.Hour + 20*time.Microsecond, 60 * time.Microsecond, 0},
		{"an exact one, which corrects it", time.Hour, 100, 0},
		{"a step that only exact readings show", time.Hour + 5*time.Microsecond, 100, 5 * time.Microsecond},
	} {
		now, exact = look.now, look.exact
		if got, err := steps.Look(); err != nil || got != look.want {
			t.Errorf("%s: %v, %v, want %v", look.what, got, err, look.want)
		}
	}
}

func TestStepsAreThoseOfTheClockOfTransmitTimes(t *testing.T) {
	state, err := Read()
	testlab.Must(t, err)
	got, exact, err := difference()
	testlab.Must(t, err)
	var realtime, boot unix.Timespec
	testlab.Must(t, errors.Join(unix.ClockGettime(unix.CLOCK_REALTIME, &realtime), unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot)))
	want := time.Duration(realtime.Nano()-boot.Nano()) + time.Duration(state.TAIOffset)*time.Second
	if off := (got - want).Abs(); off > 500*time.Millisecond || exact < 0 {
		t.Errorf("CLOCK_TAI - CLOCK_BOOTTIME is read as %v, want %v", got, want)
	}
}

func TestAClockThatNobodyStepsHasNoSteps(t *testing.T) {
	var steps Steps
	for range 50 {
		if step, err := steps.Look(); err != nil || step != 0 {
			t.Errorf("a step of %v, %v", step, err)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestWaitingForStepsEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- WaitForSteps(ctx, func() { t.Error("nobody stepped the clock") }) }()
	testlab.Eventually(t, 10*time.Second, time.Millisecond, func() error {
		if !timerOpen(t) {
			return errors.New("it has not begun to wait")
		}
		return nil
	})
	time.Sleep(20 * time.Millisecond) // from the timer's start to the wait
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it goes on waiting")
	}
	// A file that is closed while another goroutine reads from it ends with that read.
	testlab.Eventually(t, 10*time.Second, time.Millisecond, func() error {
		if timerOpen(t) {
			return errors.New("its timer is left")
		}
		return nil
	})
}

// timerOpen tells whether this process has a timer of the kind that steps end.
func timerOpen(t *testing.T) bool {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	testlab.Must(t, err)
	return slices.ContainsFunc(open, func(dirEntry os.DirEntry) bool {
		target, err := os.Readlink("/proc/self/fd/" + dirEntry.Name())
		return err == nil && target == "anon_inode:[timerfd]"
	})
}
