// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// setUpTime is the time for the guest to set up qdiscs before a scenario starts, in nanoseconds.
const setUpTime = 500_000_000

// SetUpAt returns when the guest begins to set up the qdiscs.
func (s *Scenario) SetUpAt() int64 {
	if s.Strategy == TAS {
		return s.Schedules[0].At
	}
	return -setUpTime
}

// askedFor returns when the guest requests a schedule; without schedules, when it creates the qdiscs.
func (s *Scenario) askedFor(schedule int) int64 {
	if schedule == 0 {
		return s.SetUpAt()
	}
	return s.Schedules[schedule].At
}

// Commands returns the lines for `tc -batch` that give a device the qdiscs of the scenario, with schedules those of the
// schedule of that number. start is the scenario's start, in nanoseconds of CLOCK_TAI.
func (s *Scenario) Commands(device string, schedule int, start int64) []string {
	switch {
	case s.Strategy == StrictPriority:
		return s.prio(device)
	case s.Strategy != TAS:
		return []string{s.link(device), s.etf(device, "100:1")}
	case schedule > 0:
		return []string{taprio(device, "", s.Schedules[schedule].Table, start)}
	}
	commands := []string{taprio(device, classesAndQueues(), s.Schedules[0].Table, start)}
	if !s.Timed() {
		return commands
	}
	for queue := 1; queue <= Classes; queue++ {
		commands = append(commands, s.etf(device, "100:"+strconv.Itoa(queue)))
	}
	// Each child resets taprio, which stops its schedule. Requesting the schedule again starts it.
	return append(commands, taprio(device, "", s.Schedules[0].Table, start))
}

// taprio returns the command for one schedule. mapping is required when the qdisc is created and forbidden later.
func taprio(device, mapping string, table Table, start int64) string {
	var command strings.Builder
	fmt.Fprintf(&command, "qdisc replace dev %s root handle 100: stab overhead %d taprio%s base-time %d", device,
		overheadBytes, mapping, start+table.BaseTime.Offset())
	for _, entry := range table.ControlList.Entries {
		fmt.Fprintf(&command, " sched-entry S %02x %d", bits.Reverse8(entry.GateStates), entry.TimeInterval)
	}
	fmt.Fprintf(&command, " cycle-time %d cycle-time-extension %d clockid CLOCK_TAI%s", table.CycleTime.Nanoseconds(),
		table.CycleTimeExtension, maxSDU(table.QueueMaxSDUTable))
	return command.String()
}

// kernelClass returns the kernel's number of a class. This kernel's taprio serves its queues from the first to the
// last, and requires those of class 0 to be the first: there, class 0 is the most important.
func kernelClass(class int) int { return Classes - 1 - class }

// classesAndQueues assigns one queue to each class.
func classesAndQueues() string {
	queues := make([]string, Classes)
	for i := range queues {
		queues[i] = "1@" + strconv.Itoa(i)
	}
	return fmt.Sprintf(" num_tc %d map %s queues %s", Classes, priorityMap(), strings.Join(queues, " "))
}

func priorityMap() string {
	priorities := make([]string, len(classOfPriority))
	for priority, class := range classOfPriority {
		priorities[priority] = strconv.Itoa(kernelClass(class))
	}
	return strings.Join(priorities, " ")
}

func maxSDU(table []QueueMaxSDU) string {
	if len(table) == 0 {
		return ""
	}
	sizes := make([]string, Classes)
	for i := range sizes {
		sizes[i] = "0"
	}
	for _, limit := range table {
		sizes[kernelClass(limit.TrafficClass)] = strconv.Itoa(limit.Bytes)
	}
	return " max-sdu " + strings.Join(sizes, " ")
}

func (s *Scenario) etf(device, parent string) string {
	command := fmt.Sprintf("qdisc replace dev %s parent %s etf clockid CLOCK_TAI delta %d", device, parent, s.ETFDelta)
	if s.Strategy == ETFDeadline {
		command += " deadline_mode"
	}
	return command
}

// link is a link of the scenario's speed: taprio knows it, the other qdiscs get one frame after the other.
func (s *Scenario) link(device string) string {
	longest := 0
	for _, message := range s.Messages {
		longest = max(longest, message.WireBytes())
	}
	return fmt.Sprintf("qdisc replace dev %s root handle 100: stab overhead %d tbf rate %dbit burst %d limit 100000000",
		device, overheadBytes, LinkSpeed, longest)
}

// prio serves its bands in order, so the most important class is the first.
func (s *Scenario) prio(device string) []string {
	commands := []string{s.link(device), fmt.Sprintf("qdisc replace dev %s parent 100:1 handle 200: prio bands %d priomap %s",
		device, Classes, priorityMap())}
	for band := 1; band <= Classes; band++ {
		commands = append(commands, s.etf(device, "200:"+strconv.Itoa(band)))
	}
	return commands
}
