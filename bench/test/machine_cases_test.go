// SPDX-License-Identifier: Apache-2.0

//go:build vm

package bench_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
)

// casesProfile is profile kata-cases with few messages, and without what takes long.
const casesProfile = `
name: cases
target: guest
paths: [guest-kernel, guest-tap, guest-taprio]
workloads:
  - {name: plain, paths: [guest-kernel]}
  - {name: gates, paths: [guest-taprio]}
  - {name: gates-iperf3, paths: [guest-tap]}
payloads: [256]
cycles: [2ms]
window: {open: 1200us, close: 1300us, offset: 50us, stretch: 20, guest-early: 400us}
vlan: 3
messages: 200
repetitions: 1
warm-up: 0
samplers: on
`

func TestGuestsInCases(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	guestmachine.Kernel(t, root)
	guestmachine.QEMU(t, root)
	out := t.TempDir()
	started := startBench(t, writeProfile(t, casesProfile), out, "--target", "guest")
	// It fails when a message of guest-tap is lost, early, without its tag, or outside the window without ktsnd having said so.
	if err := finishDemo(t, started); err != nil {
		t.Error(err)
	}
	checkNoTraces(t, started.PID())
	summary := results.ReadSummary(t, out)
	sent := map[string]int{"plain guest-kernel": 200, "gates guest-taprio": 10, "gates-iperf3 guest-tap": 200}
	// No frame leaves before its gate opens: by ktsnd's clock exactly, by the machine's as far as that is the host's.
	opens := map[string]time.Duration{results.PathGuestTap: 1200 * time.Microsecond, results.PathGuestTaprio: 20 * time.Millisecond}
	for _, run := range summary.Runs {
		name := run.Workload + " " + run.Path
		if run.Sent != sent[name] {
			t.Errorf("%s: %d messages were sent, not %d", name, run.Sent, sent[name])
		}
		delete(sent, name)
		if run.Scheduled != nil && run.Scheduled.Min < opens[run.Path].Nanoseconds() {
			t.Errorf("%s: a frame came %d ns behind the beginning of its cycle, before its gate opens", name, run.Scheduled.Min)
		}
		if held := results.ThroughKtsnd(run.Path); held != (len(run.Gates) == 1) || held && (run.Gates[0].TrafficClass != 6 || run.Gates[0].Frames != run.Sent) {
			t.Errorf("%s: behind gates there were %+v", name, run.Gates)
		}
	}
	if len(sent) > 0 {
		t.Errorf("not measured: %v", sent)
	}
	if len(summary.Sections) != 1 || !strings.Contains(summary.Sections[0].About, "20 times as long") || len(summary.Sections[0].Tables) != 4 {
		t.Errorf("indicators: %+v", summary.Sections)
	}
}
