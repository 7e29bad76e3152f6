// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// smallestWireBytes is preamble and SFD 8, frame with FCS 64, gap 12.
const smallestWireBytes = 84

// maxCycleTimeNs is supported-cycle-max.
const maxCycleTimeNs = 3600 * nsPerSecond

// SmallestFrameNs returns how long the smallest frame occupies a link, rounded up; 0 for a link without a speed.
func SmallestFrameNs(linkSpeedBps int64) int64 {
	if linkSpeedBps == 0 {
		return 0
	}
	return (smallestWireBytes*8*nsPerSecond + linkSpeedBps - 1) / linkSpeedBps
}

// CheckTable checks whether a link of that speed can execute a table that comes from no file. It returns a *control.Error, as for a refusal
// by ktsnd, which checks the same values but does not explain them.
func CheckTable(table *control.GateParameterTable, linkSpeedBps int64) error {
	document := Document{Table: table, root: place{name: tableName}}
	if fault := document.checkTimes(SmallestFrameNs(linkSpeedBps), linkSpeedBps); fault != nil {
		return &control.Error{Field: fault.Field, Message: fault.Message}
	}
	return nil
}

// Check checks whether a link of that speed can execute the schedule. Its error is an *Error.
func (d *Document) Check(linkSpeedBps int64) error {
	fault := d.checkTimes(SmallestFrameNs(linkSpeedBps), linkSpeedBps)
	if fault == nil {
		return nil // a nil *Error is not a nil error
	}
	fault.File = d.file
	return fault
}

func (d *Document) checkTimes(smallestNs, linkSpeedBps int64) *Error {
	table := d.Table
	cycle := d.root.member("admin-cycle-time")
	reason := fmt.Sprintf("the time of the smallest frame at %s", FormatLinkSpeed(linkSpeedBps))
	switch cycleNs := table.AdminCycleTime.Nanoseconds(); {
	case table.GateEnabled && cycleNs < smallestNs:
		return cycle.fault("is %d ns; must be at least %d ns, %s", cycleNs, smallestNs, reason)
	case cycleNs > maxCycleTimeNs:
		return cycle.fault("is %d ns; must be at most %d s", cycleNs, int64(maxCycleTimeNs/nsPerSecond))
	}
	container := d.root.member("admin-control-list")
	list := container.member("gate-control-entry")
	if table.GateEnabled && len(table.AdminControlList.Entries) == 0 {
		return list.fault("has 0 entries; must have 1 to %d when gate-enabled is true", control.MaxControlListLength)
	}
	for i, entry := range table.AdminControlList.Entries {
		if at := list.entry(i); int64(entry.TimeIntervalValue) < smallestNs {
			interval := at.member("time-interval-value")
			return interval.fault("is %d; must be at least %d, %s", entry.TimeIntervalValue, smallestNs, reason)
		}
	}
	return nil
}
