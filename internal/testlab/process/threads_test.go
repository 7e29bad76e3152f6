// SPDX-License-Identifier: Apache-2.0

package process

import (
	"strings"
	"testing"
	"time"
)

func TestThreads(t *testing.T) {
	sleeping := start(t, "exec sleep 60")
	for deadline := time.Now().Add(5 * time.Second); !strings.Contains(sleeping.Threads(), " sleep, state S, in "); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("its threads are %q", sleeping.Threads())
		}
	}
	if err := sleeping.Stop(5 * time.Second); err != nil {
		t.Error(err)
	}
	if states := sleeping.Threads(); states != "" {
		t.Errorf("when it has ended they are %q", states)
	}
}

func TestThreadState(t *testing.T) {
	for stat, want := range map[string]string{
		"12 (ktsnd) D 1 12":    "D",
		"12 (a) S (b)) Z 1 12": "Z",
		"12 (ktsnd)":           "?",
		"?":                    "?",
	} {
		if got := state(stat); got != want {
			t.Errorf("of %q it is %q", stat, got)
		}
	}
}
