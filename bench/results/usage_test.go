// SPDX-License-Identifier: Apache-2.0

package results

import (
	"slices"
	"testing"
	"time"
)

func TestUsageOf(t *testing.T) {
	const second = int64(time.Second)
	sample := func(pod, uid string, at, cpu, memory int64) UsageSample {
		return UsageSample{Node: "n", Pod: pod, UID: uid, TimeNs: at * second, CPUNs: cpu * second / 10, MemoryBytes: memory}
	}
	got := UsageOf([]UsageSample{
		sample("p", "1", 100, 0, 7), sample("", "", 100, 50, 1), sample("once", "3", 100, 5, 5),
		sample("p", "1", 110, 10, 9), sample("", "", 110, 80, 2),
		sample("p", "1", 110, 10, 9),  // told twice
		sample("p", "1", 900, 500, 3), // after an interruption
		sample("p", "1", 910, 510, 3),
		sample("p", "2", 920, 0, 1), // a pod of the same name
		sample("p", "2", 930, 40, 1),
	})
	want := []Usage{
		{Node: "n", Cores: 0.3, OverNs: 10 * second, Counted: 2, MemoryBytes: 2},
		{Node: "n", Pod: "p", Cores: 0.2, OverNs: 30 * second, Counted: 6, MemoryBytes: 9},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
