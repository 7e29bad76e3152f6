// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"time"

	"github.com/kubernetsn/kubernetsn/internal/bench"
	"github.com/kubernetsn/kubernetsn/internal/results"
)

const (
	// priorityMeasured and priorityBeside are SO_PRIORITY, and the classes that ktsnd maps them to; that of who
	// floods is the default, 0, which is class 1 and needs no privilege.
	priorityMeasured = 7
	priorityBeside   = 6
	priorityFlood    = 0
	// gatesLeadTenths of a cycle is how long before their transmit times the talkers of classes 7 and 6 hand
	// messages over: 2.9 cycles, so that their timers expire 0.1 of a cycle behind a departure of theirs, when
	// ktsnd, which shares their processor, has nothing to send. On a virtual machine a timer holds up for tens of
	// microseconds what it interrupts.
	gatesLeadTenths = 29
	// competingFlows send messages of bench.FloodPayload, one each competingCycle: together some 23 Mbit/s.
	competingFlows = 2
	competingCycle = time.Millisecond
)

// companion is a talker beside those that are measured.
type companion struct {
	name         string
	path         string
	priority     int
	payloadBytes int
	cycle        time.Duration
	// offset is where in the cycle its transmit times lie.
	offset time.Duration
	// flood makes it send as fast as it can.
	flood bool
}

// companionsOf are the talkers beside the measured ones, those that flood first. Those without a schedule take the
// kernel's path between the pods, whichever path is measured, so that all paths have the same beside them.
func companionsOf(workload string, cycle time.Duration) []companion {
	flood := func(path string) companion {
		return companion{name: "saturating talker", path: path, priority: priorityFlood, payloadBytes: bench.FloodPayload, cycle: cycle,
			flood: true}
	}
	switch workload {
	case results.WorkloadCompeting:
		var all []companion
		for i := range competingFlows {
			all = append(all, companion{name: "competing talker", path: results.PathKernelVXLAN, payloadBytes: bench.FloodPayload,
				cycle: competingCycle, offset: competingCycle * time.Duration(2*i+1) / (2 * competingFlows)})
		}
		return all
	case results.WorkloadSaturated:
		return []companion{flood(results.PathKernelVXLAN)}
	}
	if !bench.HasGates(workload) {
		return nil
	}
	beside := companion{name: "talker of class 6", path: results.PathDirect, priority: priorityBeside,
		payloadBytes: bench.GatesPayload, cycle: cycle, offset: middleOf(priorityBeside, cycle)}
	switch workload {
	case results.WorkloadGatesSaturated:
		return []companion{flood(results.PathDirect), beside}
	case results.WorkloadKernelSaturated:
		return []companion{flood(results.PathKernelVXLAN), beside}
	}
	return []companion{beside}
}

// priorityOf is SO_PRIORITY of the measured talker.
func priorityOf(workload string) int {
	if bench.HasGates(workload) {
		return priorityMeasured
	}
	return 0
}

// leadOf is how long before its transmit time a timed message is handed over.
func leadOf(workload string, cycle time.Duration) time.Duration {
	if bench.HasGates(workload) {
		return gatesLeadTenths * cycle / 10
	}
	return lead
}

// leadAmong is that of one of several talkers, whose timers expire in the middle between departures.
func leadAmong(r bench.Run) time.Duration {
	if r.Talkers < 2 {
		return leadOf(r.Workload, r.Cycle())
	}
	between := r.Cycle() / time.Duration(r.Talkers)
	return (lead+between-1)/between*between + between/2
}

// offsetOf is where in the cycle the transmit times of a measured talker lie: several divide the cycle.
func offsetOf(r bench.Run, talker int) time.Duration {
	if bench.HasGates(r.Workload) {
		return middleOf(priorityMeasured, r.Cycle())
	}
	return r.Cycle() * time.Duration(talker) / time.Duration(r.Talkers)
}
