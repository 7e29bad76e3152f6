// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"cmp"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/results"
)

const (
	// lead is how long before its transmit time the talker hands over a timed message: enough for a late talker, and
	// not a whole number of cycles, because its timer would interrupt ktsnd, which shares its processor, exactly at a
	// departure.
	lead = 2500 * time.Microsecond
	// priorityMeasured and priorityOther are SO_PRIORITY, and the classes that ktsnd maps them to; floods have the
	// default, 0, which is class 1 and needs no privilege.
	priorityMeasured = 7
	priorityOther    = 6
	priorityFlood    = 0
	// priorityWindow is the priority of the measured messages in a profile's window, as in the paper of these cases.
	priorityWindow = 6
	// gatesLeadTenths of a cycle is how long before their transmit times the talkers of classes 7 and 6 hand over
	// messages: 2.9 cycles, so that their timers expire 0.1 of a cycle after a departure of theirs, when ktsnd, which
	// shares their processor, has nothing to send. On a virtual machine a timer interrupt takes tens of microseconds.
	gatesLeadTenths = 29
	// competingFlows send messages of engine.FloodPayload, one each competingCycle: together some 23 Mbit/s.
	competingFlows = 2
	competingCycle = time.Millisecond
)

// Companion is an additional talker during a run.
type Companion struct {
	Name         string
	Path         string
	Priority     int
	PayloadBytes int
	Cycle        time.Duration
	// Offset is the position of its transmit times in the cycle.
	Offset time.Duration
	// Flood makes it send as fast as it can.
	Flood bool
}

// CompanionsOf returns the additional talkers, floods first. Without a schedule they use the kernel's path between the
// pods on every measured path, so that all have the same competition.
func CompanionsOf(r engine.Run, kernel string) []Companion {
	workload, cycle := r.Workload, r.Cycle()
	flood := func(path string) Companion {
		return Companion{Name: "saturating talker", Path: path, Priority: priorityFlood, PayloadBytes: engine.FloodPayload, Cycle: cycle,
			Flood: true}
	}
	switch workload {
	case results.WorkloadCompeting:
		var all []Companion
		for i := range competingFlows {
			all = append(all, Companion{Name: "competing talker", Path: kernel, PayloadBytes: engine.FloodPayload,
				Cycle: competingCycle, Offset: competingCycle * time.Duration(2*i+1) / (2 * competingFlows)})
		}
		return all
	case results.WorkloadSaturated:
		return []Companion{flood(kernel)}
	}
	if !engine.HasGates(workload) {
		return nil
	}
	if r.Window != (engine.Window{}) {
		return besideTheWindow(workload, flood, kernel)
	}
	beside := Companion{Name: "talker of class 6", Path: results.PathDirect, Priority: priorityOther,
		PayloadBytes: engine.GatesPayload, Cycle: cycle, Offset: middleOf(priorityOther, cycle)}
	switch workload {
	case results.WorkloadGatesSaturated:
		return []Companion{flood(results.PathDirect), beside}
	case results.WorkloadKernelSaturated:
		return []Companion{flood(kernel), beside}
	}
	return []Companion{beside}
}

// besideTheWindow has only the floods' class: all other classes share the rest of the cycle.
func besideTheWindow(workload string, flood func(string) Companion, kernel string) []Companion {
	switch workload {
	case results.WorkloadGatesSaturated:
		return []Companion{flood(results.PathDirect)}
	case results.WorkloadKernelSaturated:
		return []Companion{flood(kernel)}
	}
	return nil
}

// PriorityOf is SO_PRIORITY of the measured talker.
func PriorityOf(r engine.Run) int {
	switch {
	case !engine.HasGates(r.Workload):
		return 0
	case r.Window != (engine.Window{}):
		return priorityWindow
	}
	return priorityMeasured
}

// LeadOf returns how long before its transmit time a timed message is handed over. In a profile's window that is at the
// beginning of the cycle, or of the previous one if that is too close.
func LeadOf(workload string, cycle time.Duration, window engine.Window) time.Duration {
	switch {
	case !engine.HasGates(workload):
		return lead
	case window == (engine.Window{}):
		return gatesLeadTenths * cycle / 10
	}
	return window.Lead(cycle, results.PathDirect)
}

// LeadOfPlain returns that of a pod's messages without a schedule.
func LeadOfPlain(profile *engine.Profile) time.Duration {
	return cmp.Or(profile.Lead, lead)
}

// LeadAmong returns that of one of several talkers, whose timers expire midway between departures.
func LeadAmong(r engine.Run) time.Duration {
	if r.LeadNs != 0 && !engine.HasGates(r.Workload) {
		return time.Duration(r.LeadNs)
	}
	if results.InGuest(r.Path) {
		if engine.HasGates(r.Workload) {
			return r.Window.Lead(r.Cycle(), r.Path)
		}
		return engine.GuestLead
	}
	if r.Talkers < 2 {
		return LeadOf(r.Workload, r.Cycle(), r.Window)
	}
	between := r.Cycle() / time.Duration(r.Talkers)
	return (lead+between-1)/between*between + between/2
}

// OffsetOf returns the position of a measured talker's transmit times in the cycle: several talkers divide the cycle.
func OffsetOf(r engine.Run, talker int) time.Duration {
	if engine.HasGates(r.Workload) && r.Window != (engine.Window{}) {
		return r.Window.Transmit() % r.Cycle()
	}
	if engine.HasGates(r.Workload) {
		return middleOf(priorityMeasured, r.Cycle())
	}
	return r.Cycle() * time.Duration(talker) / time.Duration(r.Talkers)
}
