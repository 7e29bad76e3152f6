// SPDX-License-Identifier: Apache-2.0

package taprio

import (
	"fmt"
	"math/bits"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/schedule"
)

const allOpen = 255

// Notes returns messages about differences between the kernel and ktsnd for this schedule.
func Notes(table *control.GateParameterTable, o *Options) (notes []string) {
	if table.AdminGateStates != allOpen {
		notes = append(notes, "taprio has no admin-gate-states: until the schedule begins all gates are open")
	}
	if beyond := opened(table) >> o.classes() << o.classes(); beyond != 0 {
		notes = append(notes, fmt.Sprintf("the gates of %s open, and no priority leads there", schedule.Classes(beyond)))
	}
	if !o.offloads(OffloadTaprio) && overlap(table, o.classes()) {
		notes = append(notes, "gates of several classes are open at a time: Linux before 6.4 then prefers the lowest of these classes, later ones the highest")
	}
	if o.ETF && !o.offloads(OffloadETF) {
		notes = append(notes, fmt.Sprintf("without offload etf gives frames to the device up to %v before their transmit times", o.Delta))
	}
	if o.ETF {
		notes = append(notes, "etf drops frames without a transmit time; --etf-classes sets which classes have it")
	}
	return notes
}

// opened returns the classes whose gates are open at some time, as a bit for each.
func opened(table *control.GateParameterTable) (states uint8) {
	for _, entry := range table.AdminControlList.Entries {
		states |= entry.GateStatesValue
	}
	return states
}

// overlap reports whether the gates of several classes are open at the same time.
func overlap(table *control.GateParameterTable, classes int) bool {
	for _, entry := range table.AdminControlList.Entries {
		if bits.OnesCount8(entry.GateStatesValue<<(control.TrafficClasses-classes)) > 1 {
			return true
		}
	}
	return false
}
