// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package netns_test

import (
	"testing"
	"time"
)

// The budget is that of the machine.
func TestChaosABusyLoopIsNotStoppedInAMinute(t *testing.T) {
	lab := newLab(t)
	_, client := lab.startDaemon(t, "--cpu", "0")
	status := lab.keepBusy(t, client, 70*time.Microsecond, time.Minute)
	if status.RealtimeBudget.PeriodNs == 0 {
		t.Skip("the kernel stops no real-time threads here")
	}
	checkNotStopped(t, status)
}
