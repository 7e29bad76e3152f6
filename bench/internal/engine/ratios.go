// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math/rand/v2"
	"slices"

	"github.com/kubernetsn/kubernetsn/bench/internal/inference"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

const (
	bootstrapRounds = 1000
	confidence      = 0.95
)

// compared are the percentiles of latency that get ratios.
var compared = []struct {
	name       string
	hundredths int
	figure     func(*stats.Summary) int64
}{
	{"latency_ns.p50", 5000, p50},
	{"latency_ns.p99", 9900, p99},
}

// ratios compares each path with the others under the same workload, and each workload with its base workload on the
// same path.
func (c *collector) ratios() []results.Ratio {
	all := []results.Ratio{}
	for _, entry := range slices.Concat(c.entries, c.witnesses) {
		entry.resampled = inference.NewResampled(entry.parts)
	}
	random := rand.New(rand.NewPCG(c.profile.Seed, 0))
	for _, first := range c.entries {
		for _, other := range c.entries {
			if c.comparable(first.run.Key(), other.run.Key()) {
				all = append(all, compare(random, first, other)...)
			}
		}
	}
	return append(all, c.costOfWatching(random)...)
}

// costOfWatching compares watched with unwatched runs.
func (c *collector) costOfWatching(random *rand.Rand) []results.Ratio {
	var all []results.Ratio
	for _, watched := range c.witnesses {
		plain := watched.run.Key()
		plain.Workload = results.WorkloadPlain
		if other := c.find(plain); other != nil {
			all = append(all, compare(random, watched, other)...)
		}
	}
	return all
}

// comparable reports whether the ratio of two keys is given.
func (c *collector) comparable(first, other results.Key) bool {
	if first.PayloadBytes != other.PayloadBytes || first.CycleNs != other.CycleNs {
		return false
	}
	if first.Workload == other.Workload {
		return first.Path == c.profile.Paths[0] && other.Path != first.Path
	}
	return first.Path == other.Path && other.Workload == baseWorkload(first.Workload)
}

// compare returns the ratios of all available figures.
func compare(random *rand.Rand, base, other *entry) []results.Ratio {
	var all []results.Ratio
	first, second := base.run.Latency, other.run.Latency
	if first == nil || second == nil {
		return nil
	}
	for _, figure := range compared {
		low, high, ok := inference.RatioRange(random, base.resampled, other.resampled, figure.hundredths, bootstrapRounds, confidence,
			inference.InTurns)
		above, below := figure.figure(first), figure.figure(second)
		if !ok || below <= 0 {
			continue
		}
		doubt := doubtAbout(base.run.ClockError, other.run.ClockError, float64(below))
		if doubt == "" {
			low, high = widened(low, high, float64(above), float64(below), base.run.ClockError, other.run.ClockError)
		}
		all = append(all, results.Ratio{Figure: figure.name, Path: base.run.Path, Workload: base.run.Workload,
			AgainstPath: other.run.Path, AgainstLoad: other.run.Workload, PayloadBytes: base.run.PayloadBytes, CycleNs: base.run.CycleNs,
			Value: float64(above) / float64(below), Low: low, High: high, Confidence: confidence, Doubt: doubt})
	}
	return all
}
