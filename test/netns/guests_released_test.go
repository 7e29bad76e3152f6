// SPDX-License-Identifier: Apache-2.0

//go:build vm

package netns_test

import (
	"slices"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// releasedCount is of the messages that are held, and of those that the machine releases.
const releasedCount = 100

// released compares messages that the host holds until their times with the same ones that the machine's own etf releases, one of
// two queues below mqprio, and that the host forwards at once.
func (m *machines) released(t *testing.T) {
	way := m.bothPaths()["tap"]
	const send = "%s$inside send --to %s --count %d --cycle 10ms --lead 100ms --priority 3"
	var before guestStatus
	var held, released []int64
	t.Run("held", func(t *testing.T) {
		m.followHost(t, way)
		before = m.believes(t, way)
		tap := m.a.openTap(t, 4*releasedCount)
		m.one.run(t, send, way.in, atPodB, releasedCount)
		held = behindTimes(awaitMarks(t, tap, releasedCount), before)
	})
	t.Run("released", func(t *testing.T) {
		m.one.run(t, `ktsn-guest detach --interface %[1]s
tc qdisc replace dev %[1]s root handle 100: mqprio num_tc 2 map 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 queues 1@0 1@1 hw 0
tc qdisc replace dev %[1]s parent 100:2 etf clockid CLOCK_TAI delta 500000`, way.device)
		t.Cleanup(func() { m.one.run(t, "tc qdisc del dev %s root", way.device) })
		tap := m.a.openTap(t, 4*releasedCount)
		m.one.run(t, send, way.in, atPodB, releasedCount)
		time.Sleep(500 * time.Millisecond)
		seen := awaitMarks(t, tap, 0)
		for i := 1; i < len(seen); i++ {
			if seen[i].number <= seen[i-1].number {
				t.Errorf("message %d is behind message %d", seen[i].number, seen[i-1].number)
			}
		}
		released = behindTimes(seen, before)
	})
	if len(held) != releasedCount || len(released) == 0 {
		t.Fatalf("%d of %d messages that are held left, and %d that the machine released", len(held), releasedCount, len(released))
	}
	if early := -held[0]; early > before.BoundNs+int64(time.Millisecond) {
		t.Errorf("a message that was held left %v early", time.Duration(early))
	}
	record(t, reported("messages that left, held by the host", float64(len(held)), ""),
		reported("messages that left, released by the machine's etf", float64(len(released)), ""),
		reported("wire less transmit time, p50, held", spread(held, stats.P50), "µs"), reported("the same, p99", spread(held, stats.P99), "µs"),
		reported("wire less transmit time, p50, released", spread(released, stats.P50), "µs"), reported("the same, p99", spread(released, stats.P99), "µs"),
		limited("p99 held in parts of that released", spread(held, stats.P99)/spread(released, stats.P99), "", 0.2))
}

// behindTimes is how far behind their times messages were on the wire, as far as the machine knows the host's clock, in order.
func behindTimes(seen []onWire, known guestStatus) (all []int64) {
	for _, message := range seen {
		all = append(all, message.wireTAI-message.txtime-known.AheadNs)
	}
	slices.Sort(all)
	return all
}

// spread is a percentile of what is sorted, of its distance from 0, in microseconds.
func spread(all []int64, parts int) float64 {
	distances := make([]int64, len(all))
	for i, value := range all {
		distances[i] = max(value, -value)
	}
	slices.Sort(distances)
	return float64(stats.Percentile(distances, parts)) / 1e3
}
