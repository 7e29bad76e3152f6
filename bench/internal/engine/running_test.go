// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

func TestRunning(t *testing.T) {
	running := NewRunning()
	samples := make([]int64, 100_000)
	for i := range samples {
		samples[i] = int64(i + 1)
	}
	for half := range slices.Chunk(samples, len(samples)/2) {
		if err := running.Add(half); err != nil {
			t.Fatal(err)
		}
	}
	if err := running.Add([]int64{-1, 2 * runningLimitNs}); err != nil {
		t.Errorf("a sample out of range: %v", err)
	}
	exact := stats.Summarize(samples)
	for percent, want := range map[float64]int64{50: exact.P50, 99: exact.P99} {
		if got := running.Percentile(percent); float64(got-want) > 0.002*float64(want) || got < want {
			t.Errorf("p%v is %d, exactly %d", percent, got, want)
		}
	}
	if running.Count() != 100_002 {
		t.Errorf("%d samples", running.Count())
	}
}
