// SPDX-License-Identifier: Apache-2.0

package results

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// SampleRun returns a run whose medians are all derived from one latency.
func SampleRun(path string, payloadBytes int, latencyNs int64) *Run {
	latency := &stats.Summary{P50: latencyNs, P99: 2 * latencyNs}
	r := &Run{Path: path, Workload: WorkloadPlain, PayloadBytes: payloadBytes,
		MedianOfAlternations: Distributions{
			Latency: latency, ClockError: OneClock(), LaunchError: latency, SendCall: latency,
			Jitter: &stats.Jitter{AbsP50: latencyNs}}}
	cores := 0.25
	r.MedianOfAlternations.SendingCores = &cores
	if path == PathDirect {
		late := uint64(1)
		r.Late = &late
		r.MedianOfAlternations.DepartureError = &stats.Summary{P50: latencyNs / 100}
		r.MedianOfAlternations.CPUCores = map[string]float64{"talker": 0.17, "ktsnd": 0.08}
	}
	return r
}

// ReadSummary reads the summary.json of a demo or bench in a folder.
func ReadSummary(t testing.TB, dir string) *Summary {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	summary := &Summary{}
	if err := json.Unmarshal(text, summary); err != nil {
		t.Fatal(err)
	}
	return summary
}
