// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

func TestSwitchShareNeedsWitness(t *testing.T) {
	for _, samplers := range []Samplers{SamplersOn, SamplersApart, SamplersOff} {
		dir, profile := t.TempDir(), short()
		profile.Paths, profile.Samplers = []string{"direct", "kernel-vxlan", "ovs"}, samplers
		if err := measure(t.Context(), dir, &profile, &fake{}); err != nil {
			t.Fatal(err)
		}
		summary, _ := collected(t, dir)
		for _, run := range summary.Runs {
			port := samplers != SamplersOff && run.Path != "kernel-vxlan"
			if (run.Port != nil) != port || port && run.Port.P50 != int64(len(run.Path)*400) {
				t.Errorf("samplers %s: the port of %s takes %+v", samplers, run.Key(), run.Port)
			}
			share := port && run.Path == "ovs"
			if (run.SwitchShare != nil) != share || share && (*run.SwitchShare < 0.39 || *run.SwitchShare > 0.41) {
				t.Errorf("samplers %s: of %s the share is %v", samplers, run.Key(), run.SwitchShare)
			}
		}
	}
}

func TestWitnesses(t *testing.T) {
	dir, profile := t.TempDir(), short()
	profile.Samplers = SamplersApart
	if err := measure(t.Context(), dir, &profile, &fake{}); err != nil {
		t.Fatal(err)
	}
	summary, series := collected(t, dir)
	for i, run := range summary.Runs {
		each := profile.Messages + max(profile.Messages/witnessShare, 2)
		if len(run.Alternations) != profile.Repetitions || run.Sent != each*profile.Repetitions || run.LaunchError == nil {
			t.Errorf("%s: %d alternations, %+v, launch error %v", run.Key(), len(run.Alternations), run.Counts, run.LaunchError)
		}
		if got, want := len(series[i].LatencyNs), profile.Messages*profile.Repetitions; got != want || len(series[i].LaunchNs) != each*profile.Repetitions-want {
			t.Errorf("%s: %d latencies, want %d; %d launches", run.Key(), got, want, len(series[i].LaunchNs))
		}
	}
	var watched int
	for _, ratio := range summary.Ratios {
		if ratio.Workload != results.WorkloadWatched {
			continue
		}
		watched++
		if ratio.AgainstLoad != results.WorkloadPlain || ratio.Path != ratio.AgainstPath {
			t.Errorf("%+v", ratio)
		}
	}
	if watched == 0 {
		t.Error("nothing says what watching costs")
	}
}
