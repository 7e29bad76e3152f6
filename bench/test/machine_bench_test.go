// SPDX-License-Identifier: Apache-2.0

//go:build vm

package bench_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
)

// machineProfile is one cell of profile vm on each path, with what does not depend on how busy this machine is.
const machineProfile = `
name: machines
paths: [direct, guest-tap, guest-vhost, guest-released]
workloads: [guest-load]
payloads: [16]
cycles: [10ms]
messages: 50
repetitions: 1
warm-up: 0
samplers: on
budget: [400us, 1ms]
assert:
  - guest-tap.guest-load.lost + guest-tap.guest-load.early + guest-vhost.guest-load.lost + guest-vhost.guest-load.early == 0
  - guest-tap.guest-load.request_error_ns.min >= -guest-tap.guest-load.clock_error_ns.talker
  - guest-vhost.guest-load.request_error_ns.min >= -guest-vhost.guest-load.clock_error_ns.talker
`

func TestGuestsInBench(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	guestmachine.Kernel(t, root)
	guestmachine.QEMU(t, root)
	out := t.TempDir()
	started := startBench(t, writeProfile(t, machineProfile), out)
	if err := finishDemo(t, started); err != nil {
		t.Error(err)
	}
	checkNoTraces(t, started.PID())
	if left, err := filepath.Glob("/run/netns/ktsn-vm-*"); err != nil || len(left) > 0 && strings.Contains(strings.Join(left, " "), strconv.Itoa(started.PID())) {
		t.Errorf("%q are left, %v", left, err)
	}
	summary := results.ReadSummary(t, out)
	if len(summary.Runs) != 4 || !strings.Contains(summary.Emulated, "emulated") {
		t.Errorf("%d runs, emulated: %q", len(summary.Runs), summary.Emulated)
	}
	for _, run := range summary.Runs {
		if !results.InGuest(run.Path) {
			continue
		}
		if run.RequestError == nil || run.ClockError == nil || run.ClockError.SameClock || run.ClockError.CombinedNs() <= 0 {
			t.Errorf("%s: request error %+v, clocks %+v", run.Key(), run.RequestError, run.ClockError)
		}
		if held := results.ThroughKtsnd(run.Path); held != (run.DepartureError != nil) || held && run.CPUCores["relay"] <= 0 || run.CPUCores["talker"] <= 0 {
			t.Errorf("%s: departure error %+v, cores %v", run.Key(), run.DepartureError, run.CPUCores)
		}
	}
}
