// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Cycle is a control list that is executed once in each cycle time.
type Cycle struct {
	TimeNs  int64
	Entries []control.GateControlEntry
}

// window is a part of a cycle in which no gate moves, from (inclusive) to (exclusive) its beginning.
type window struct {
	fromNs, toNs int64
	states       uint8
}

// windows returns the executed part of the list: cut at the end of the cycle, or with its last states held until then.
func (c Cycle) windows() []window {
	var all []window
	at := int64(0)
	for i, entry := range c.Entries {
		end := at + int64(entry.TimeIntervalValue)
		if i == len(c.Entries)-1 || end > c.TimeNs {
			end = c.TimeNs
		}
		if end > at {
			all = append(all, window{at, end, entry.GateStatesValue})
		}
		at = end
	}
	return all
}

// Executed returns the control list as it is executed: cut at the end of the cycle, or with its last states held until then.
func (c Cycle) Executed() (entries []control.GateControlEntry) {
	for _, window := range c.windows() {
		// A long one takes several entries.
		for at := window.fromNs; at < window.toNs; at += math.MaxUint32 {
			entries = append(entries, control.GateControlEntry{
				Index: uint32(len(entries)), OperationName: control.SetGateStates, TimeIntervalValue: uint32(min(window.toNs-at, math.MaxUint32)),
				GateStatesValue: window.states,
			})
		}
	}
	return entries
}

// openNs returns how long the gate of a class is open between two times of the cycle.
func openNs(windows []window, class int, fromNs, toNs int64) int64 {
	open := int64(0)
	for _, window := range windows {
		if window.states>>class&1 == 1 {
			open += max(0, min(toNs, window.toNs)-max(fromNs, window.fromNs))
		}
	}
	return open
}

// longestNs returns the longest window of a class, which may continue in the next cycle; 0 if its gate never opens, the largest number if
// it never closes.
func (c Cycle) longestNs(class int) int64 {
	windows := c.windows()
	if openNs(windows, class, 0, c.TimeNs) == c.TimeNs {
		return math.MaxInt64
	}
	longest, current := int64(0), int64(0)
	for range 2 { // the second time for the one that goes on
		for _, window := range windows {
			if window.states>>class&1 == 0 {
				current = 0
				continue
			}
			current += window.toNs - window.fromNs
			longest = max(longest, current)
		}
	}
	return longest
}

// Link has the properties of a link that decide which frames fit into a window.
type Link struct {
	SpeedBps int64
	// GuardBandNs is how long before its gate closes a frame must have left.
	GuardBandNs int64
}

// Notes returns remarks about a cycle that its list does not show at first sight.
func (c Cycle) Notes(link Link, ascii bool) []string {
	if len(c.Entries) == 0 {
		return nil
	}
	return slices.Concat(c.lengthNotes(ascii), c.windowNotes(link, ascii))
}

// lengthNotes compares the list with the cycle.
func (c Cycle) lengthNotes(ascii bool) []string {
	sum := int64(0)
	unreached := 0
	for _, entry := range c.Entries {
		if sum >= c.TimeNs {
			unreached++
		}
		sum += int64(entry.TimeIntervalValue)
	}
	takes := "the entries take " + FormatNs(sum, ascii)
	switch {
	case sum < c.TimeNs:
		return []string{takes + "; the states of the last are held until the cycle ends"}
	case unreached > 0:
		return []string{fmt.Sprintf("%s; the last %d of them are never reached", takes, unreached)}
	case sum > c.TimeNs:
		return []string{takes + "; the last is cut where the cycle ends"}
	}
	return nil
}

// windowNotes finds the classes that can never send a frame.
func (c Cycle) windowNotes(link Link, ascii bool) []string {
	var notes []string
	needed := SmallestFrameNs(link.SpeedBps) + link.GuardBandNs
	for class := control.TrafficClasses - 1; class >= 0; class-- {
		longest := c.longestNs(class)
		switch {
		case longest == 0:
			notes = append(notes, fmt.Sprintf("the gate of TC%d never opens", class))
		case longest < needed:
			notes = append(notes, fmt.Sprintf("no frame of TC%d ever leaves: its longest window is %s, and guard band and smallest "+
				"frame take %s", class, FormatNs(longest, ascii), FormatNs(needed, ascii)))
		}
	}
	return notes
}

// Classes lists the classes whose bit is set, the most important first.
func Classes(states uint8) string {
	var open []string
	for class := control.TrafficClasses - 1; class >= 0; class-- {
		if states>>class&1 == 1 {
			open = append(open, fmt.Sprintf("TC%d", class))
		}
	}
	if len(open) == 0 {
		return "none"
	}
	return strings.Join(open, ", ")
}
