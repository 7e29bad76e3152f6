// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func TestTheKernelGetsTheGrandmastersOffsetOfTAI(t *testing.T) {
	valid := UTCOffset{Seconds: 37, Valid: true}
	for name, test := range map[string]struct {
		has   int32
		known []UTCOffset
		want  int32
		sets  int
	}{
		"that it has not":                {0, []UTCOffset{valid, valid, valid}, 37, 1},
		"at the second look":             {0, []UTCOffset{valid}, 0, 0},
		"that it has":                    {37, []UTCOffset{valid, valid}, 37, 0},
		"that changes between two looks": {0, []UTCOffset{valid, {Seconds: 38, Valid: true}}, 0, 0},
		"of which it is not sure":        {0, []UTCOffset{{Seconds: 37}, {Seconds: 37}}, 0, 0},
		"near a leap second":             {38, []UTCOffset{{37, true, true}, {37, true, true}}, 38, 0},
		"after a leap second":            {37, []UTCOffset{{37, true, true}, {38, true, false}, {38, true, false}}, 38, 1},
		"doubted in between":             {0, []UTCOffset{valid, {}, valid}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			sets, messages := 0, ""
			kernel := test.has
			setter := &taiSetter{say: func(text string) { messages += text }, adjust: func(state *unix.Timex) (int, error) {
				if state.Modes == adjTAI {
					kernel, sets = int32(state.Constant), sets+1
				} else if state.Modes != 0 {
					t.Errorf("modes are %#x", state.Modes)
				}
				state.Tai = kernel
				return 0, nil
			}}
			for _, known := range test.known {
				testlab.Must(t, setter.update(known))
			}
			if kernel != test.want || sets != test.sets || (messages != "") != (sets > 0) {
				t.Errorf("the kernel has %d after %d times, and it says %q", kernel, sets, messages)
			}
		})
	}
	refused := &taiSetter{adjust: func(*unix.Timex) (int, error) { return 0, unix.EPERM }}
	if err := refused.update(valid); !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "TAI offset") {
		t.Errorf("without the privilege: %v", err)
	}
}

func TestAnOffsetOfTAIThatCannotBeIsNotGivenToTheKernel(t *testing.T) {
	for _, seconds := range []int{-5, 0, 9, 256, 1000} {
		setter := &taiSetter{say: func(messages string) { t.Errorf("%d s: it says %q", seconds, messages) }, adjust: func(state *unix.Timex) (int, error) {
			if state.Modes != 0 {
				t.Errorf("%d s are set", seconds)
			}
			state.Tai = 37
			return 0, nil
		}}
		for range 3 {
			if err := setter.update(UTCOffset{Seconds: seconds, Valid: true}); err == nil || !strings.Contains(err.Error(), "which is invalid") {
				t.Errorf("%d s: %v", seconds, err)
			}
		}
	}
}

func TestAnOffsetOfTAIThatTheKernelDoesNotTakeIsNotClaimed(t *testing.T) {
	setter := &taiSetter{say: func(messages string) { t.Errorf("it says %q", messages) }, adjust: func(state *unix.Timex) (int, error) {
		state.Tai = 0
		return 0, nil
	}}
	first, second := setter.update(UTCOffset{Seconds: 37, Valid: true}), setter.update(UTCOffset{Seconds: 37, Valid: true})
	if first != nil || second == nil || second.Error() != "the kernel did not take 37 s as its TAI offset: it has 0 s" {
		t.Errorf("got %v, then %v", first, second)
	}
}
