// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"sort"
	"strings"
)

// ReplayStart is the start of a scenario in ktsn-shaper-replay, in nanoseconds of CLOCK_TAI. It leaves room for base
// times far in the past.
const ReplayStart = 1_000_000_000_000_000_000

// ktsnd's defaults: how long before a gate closes a frame must have left, how late a message may leave under etf, and
// how late a message may be that counts as on time.
const (
	guardBand = 20_000
	delta     = 500_000
	tolerance = 10_000
)

// ReplayLines returns the scenario as ktsn-shaper-replay reads it, see datapath/tests/replay/parse.h.
func (s *Scenario) ReplayLines() string {
	events := make([]replayEvent, 0, len(s.Schedules)+len(s.Messages))
	for _, schedule := range s.Schedules {
		events = append(events, replayEvent{schedule.At, schedule.replayLines()})
	}
	for _, message := range s.Messages {
		events = append(events, replayEvent{message.HandedOver, s.replayLine(message)})
	}
	sort.SliceStable(events, func(i, j int) bool { return events[i].at < events[j].at })
	var lines strings.Builder
	fmt.Fprintf(&lines, "strategy %s\nlink-speed-bps %d\nguard-band-ns %d\ndelta-ns %d\ntolerance-ns %d\n", s.Strategy,
		LinkSpeed, guardBand, delta, tolerance)
	for _, event := range events {
		lines.WriteString(event.lines)
	}
	fmt.Fprintf(&lines, "until %d\n", ReplayStart+s.Until)
	return lines.String()
}

type replayEvent struct {
	at    int64
	lines string
}

func (s *Schedule) replayLines() string {
	table := s.Table
	var lines strings.Builder
	fmt.Fprintf(&lines, "schedule %d %d %d %d %d\n", ReplayStart+s.At, table.AdminGateStates,
		ReplayStart+table.BaseTime.Offset(), table.CycleTime.Nanoseconds(), table.CycleTimeExtension)
	for _, entry := range table.ControlList.Entries {
		fmt.Fprintf(&lines, "entry %d %d\n", entry.TimeInterval, entry.GateStates)
	}
	for _, limit := range table.QueueMaxSDUTable {
		fmt.Fprintf(&lines, "max-sdu %d %d\n", limit.TrafficClass, limit.Bytes)
	}
	return lines.String()
}

func (s *Scenario) replayLine(message Message) string {
	deadline := 0
	if s.Strategy == ETFDeadline {
		deadline = 1
	}
	return fmt.Sprintf("message %d %d %d %d %d %d %d\n", ReplayStart+message.HandedOver, message.ID,
		ReplayStart+message.DueAt(), message.Class(), message.WireBytes(), message.SDUBytes(), deadline)
}
