// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/json"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/results"
)

func TestWitnessesSayWhatWasOnTheWireAndNothingOfLatency(t *testing.T) {
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

func TestOlderBenchesSayWhetherTheyWatched(t *testing.T) {
	for text, want := range map[string]Samplers{"true": SamplersOn, "false": SamplersOff, `"apart"`: SamplersApart} {
		var got Samplers
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	if err := json.Unmarshal([]byte("7"), new(Samplers)); err == nil {
		t.Error("7 is no error")
	}
}
