// SPDX-License-Identifier: Apache-2.0

package scenario

import "fmt"

// Window names the window of a time: cycle and entry of the schedule in force according to IEEE Std 802.1Q-2022 clause
// 8.6.9, or a field of the grid.
func (s *Scenario) Window(at int64) string {
	if s.Strategy != TAS {
		return fmt.Sprintf("field %d", floorDiv(at, s.Grid))
	}
	current := -1
	for i := range s.Schedules {
		if s.Schedules[i].start() <= at {
			current = i
		}
	}
	if current < 0 {
		return "before the schedule"
	}
	table := s.Schedules[current].Table
	since := at - table.BaseTime.Offset()
	cycle := floorDiv(since, table.CycleTime.Nanoseconds())
	entry := table.entryAt(since - cycle*table.CycleTime.Nanoseconds())
	if s.extended(current, cycle) {
		cycle, entry = cycle-1, len(table.ControlList.Entries)-1
	}
	label := fmt.Sprintf("cycle %d entry %d", cycle, entry)
	if len(s.Schedules) > 1 {
		return fmt.Sprintf("schedule %d %s", current, label)
	}
	return label
}

// extended reports whether a cycle of a schedule does not begin, because the next change is so near that the cycle
// before is extended to it (cycle-time-extension).
func (s *Scenario) extended(schedule int, cycle int64) bool {
	if schedule+1 == len(s.Schedules) {
		return false
	}
	table := s.Schedules[schedule].Table
	begin := table.BaseTime.Offset() + cycle*table.CycleTime.Nanoseconds()
	left := s.Schedules[schedule+1].start() - begin
	return left < table.CycleTime.Nanoseconds() && left <= table.CycleTimeExtension
}

// start returns ConfigChangeTime: the base time, or if that is past, the next beginning of a cycle.
func (s *Schedule) start() int64 {
	base, cycle := s.Table.BaseTime.Offset(), s.Table.CycleTime.Nanoseconds()
	if base >= s.At {
		return base
	}
	return base + -floorDiv(base-s.At, cycle)*cycle
}

// entryAt returns the entry in force at a time after the beginning of a cycle. The last entry is held after the end of
// the list.
func (t *Table) entryAt(sinceCycle int64) int {
	for i, entry := range t.ControlList.Entries {
		if sinceCycle < entry.TimeInterval {
			return i
		}
		sinceCycle -= entry.TimeInterval
	}
	return len(t.ControlList.Entries) - 1
}

// floorDiv divides and rounds towards negative infinity.
func floorDiv(a, b int64) int64 {
	if quotient := a / b; a%b >= 0 {
		return quotient
	}
	return a/b - 1
}
