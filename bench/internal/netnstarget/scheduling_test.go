// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

func TestSpinningTalkersAreScheduledLikeKtsnd(t *testing.T) {
	profiled := scheduling{spin: 90 * time.Microsecond, fifo: fifoPriority}
	ktsnd := (&daemonSetting{spin: profiled.spin}).arguments("/control.sock")
	for _, path := range []string{results.PathKernelVXLANSpin, results.PathHostSpin} {
		talker := profiled.arguments(path)
		if len(talker) == 0 {
			t.Fatalf("the talker of path %s sleeps", path)
		}
		for pair := range slices.Chunk(talker, 2) {
			if !strings.Contains(strings.Join(ktsnd, " "), strings.Join(pair, " ")) {
				t.Errorf("the talker of path %s has %v, and ktsnd %v", path, pair, ktsnd)
			}
		}
	}
	for _, path := range []string{results.PathDirect, results.PathKernelVXLAN, results.PathHost, results.PathOVS} {
		if talker := profiled.arguments(path); len(talker) > 0 {
			t.Errorf("the talker of path %s has %v", path, talker)
		}
	}
	profiled.fifo = 0
	if talker := profiled.arguments(results.PathHostSpin); slices.Contains(talker, "--fifo") {
		t.Errorf("where the kernel gives no real-time scheduling the talker has %v", talker)
	}
}

func TestOtherSchedulingIsRejected(t *testing.T) {
	talkers := scheduling{spin: 120 * time.Microsecond, fifo: 50}
	for name, test := range map[string]struct {
		status control.Status
		good   bool
	}{
		"as the talkers":               {control.Status{SpinNs: 120_000, Scheduler: "SCHED_FIFO", SchedulerPriority: 50}, true},
		"awake for longer":             {control.Status{SpinNs: 200_000, Scheduler: "SCHED_FIFO", SchedulerPriority: 50}, false},
		"with another priority":        {control.Status{SpinNs: 120_000, Scheduler: "SCHED_FIFO", SchedulerPriority: 60}, false},
		"without real-time scheduling": {control.Status{SpinNs: 120_000, Scheduler: "SCHED_OTHER"}, false},
	} {
		if err := talkers.check(&test.status); (err == nil) != test.good {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (scheduling{spin: time.Microsecond}).check(&control.Status{SpinNs: 1000, Scheduler: "SCHED_OTHER"}); err != nil {
		t.Errorf("both without real-time scheduling: %v", err)
	}
}
