// SPDX-License-Identifier: Apache-2.0

package results

import (
	"cmp"
	"slices"
	"time"
)

// UsageSample is the usage of a node, or of a container of a pod on it, at one time.
type UsageSample struct {
	Node string `json:"node"`
	// The following names are empty for the node itself. UID distinguishes pods with the same name.
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	UID       string `json:"uid,omitempty"`
	// TimeNs since 1970, by the node's clock, is the time of the count; CPUNs the processor time until then.
	TimeNs      int64 `json:"time_ns"`
	CPUNs       int64 `json:"cpu_ns"`
	MemoryBytes int64 `json:"memory_bytes"`
}

// Usage is the usage of a node, or a container, over a measurement.
type Usage struct {
	Node      string `json:"node"`
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	// Cores is the mean over OverNs, in which it was counted Counted times.
	Cores   float64 `json:"cores"`
	OverNs  int64   `json:"over_ns"`
	Counted int     `json:"counted"`
	// MemoryBytes is the maximum.
	MemoryBytes int64 `json:"memory_bytes"`
}

// longestPause separates the parts of an interrupted measurement: usage between them does not count.
const longestPause = 2 * time.Minute

// usageKey identifies the owner of samples.
type usageKey struct{ node, pod, container, uid string }

// UsageOf adds up samples, nodes first. Owners with a single sample are left out.
func UsageOf(samples []UsageSample) []Usage {
	series := map[usageKey][]UsageSample{}
	for _, sample := range samples {
		key := usageKey{sample.Node, sample.Pod, sample.Container, sample.UID}
		if samples := series[key]; len(samples) == 0 || sample.TimeNs > samples[len(samples)-1].TimeNs { // a kubelet may report a sample twice
			series[key] = append(samples, sample)
		}
	}
	sums := map[usageKey]*Usage{}
	busy := map[usageKey]int64{}
	for key, samples := range series {
		key.uid = ""
		if sums[key] == nil {
			sums[key] = &Usage{Node: key.node, Pod: key.pod, Container: key.container}
		}
		busy[key] += sums[key].add(samples)
	}
	all := []Usage{}
	for key, sum := range sums {
		if sum.OverNs > 0 {
			sum.Cores = float64(busy[key]) / float64(sum.OverNs)
			all = append(all, *sum)
		}
	}
	slices.SortFunc(all, func(a, b Usage) int {
		return cmp.Or(boolInt(a.Pod != "")-boolInt(b.Pod != ""), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Pod, b.Pod),
			cmp.Compare(a.Container, b.Container))
	})
	return all
}

// add adds the samples of one pod, or node, and returns the processor time between them.
func (u *Usage) add(samples []UsageSample) (busy int64) {
	for i, sample := range samples {
		u.Counted++
		u.MemoryBytes = max(u.MemoryBytes, sample.MemoryBytes)
		if i == 0 {
			continue
		}
		before := samples[i-1]
		if between := sample.TimeNs - before.TimeNs; between <= longestPause.Nanoseconds() && sample.CPUNs >= before.CPUNs {
			u.OverNs += between
			busy += sample.CPUNs - before.CPUNs
		}
	}
	return busy
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
