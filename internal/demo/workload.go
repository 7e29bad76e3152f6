// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"time"

	"github.com/kubernetsn/kubernetsn/internal/results"
)

// The workloads; they are the "workload" of the results.
const (
	// WorkloadPlain is path by path, without anything beside the messages.
	WorkloadPlain = results.WorkloadPlain
	// WorkloadKeepAwake marks the runs in which ktsnd keeps its core from sleeping. Talker and ktsnd share
	// that core, so it helps all paths alike.
	WorkloadKeepAwake = "keep-awake"
	// WorkloadGates has a schedule: the messages are of the most important class, and another class has its own.
	WorkloadGates = results.WorkloadGates
	// WorkloadGatesSaturated adds a talker to it that fills the window of the least important classes.
	WorkloadGatesSaturated = results.WorkloadGatesSaturated
	// WorkloadKernelSaturated adds to WorkloadGates a sender that floods the kernel's path beside ktsnd.
	WorkloadKernelSaturated = results.WorkloadKernelSaturated
)

// AllWorkloads are the workloads in the order in which they are measured.
var AllWorkloads = []string{WorkloadPlain, WorkloadKeepAwake, WorkloadGates, WorkloadGatesSaturated,
	WorkloadKernelSaturated}

// ShortWorkloads leave out what shows nothing new in a short run.
var ShortWorkloads = []string{WorkloadPlain, WorkloadGates, WorkloadGatesSaturated, WorkloadKernelSaturated}

// gateWorkloads take turns under one schedule. Path direct alone has gates.
var gateWorkloads = []string{WorkloadGates, WorkloadGatesSaturated, WorkloadKernelSaturated}

const (
	// priorityMeasured and priorityBeside are SO_PRIORITY, and the classes that ktsnd maps them to; that of who
	// floods is the default, 0, which is class 1 and needs no privilege.
	priorityMeasured = 7
	priorityBeside   = 6
	priorityFlood    = 0
	// gatesPayload is that of the talkers of classes 7 and 6, floodPayload that of who floods: nearly all that
	// the overlay carries.
	gatesPayload = 256
	floodPayload = 1400
	// floodClass is that of priorityFlood, floodFrameBits what a frame of it takes of the link: UDP, IPv4 and Ethernet
	// headers twice, VXLAN, CRC, preamble and gap are around the payload.
	floodClass     = 1
	floodFrameBits = 8 * (floodPayload + 2*(8+20+14) + 8 + 4 + 8 + 12)
	// gatesLeadTenths of a cycle is how long before their transmit times the talkers of classes 7 and 6 hand
	// messages over: 2.9 cycles, so that their timers expire 0.1 of a cycle behind a departure of theirs, when
	// ktsnd, which shares their processor, has nothing to send. On a virtual machine a timer holds up for tens of
	// microseconds what it interrupts.
	gatesLeadTenths = 29
)

// companion is a talker beside the one that is measured.
type companion struct {
	name         string
	path         string
	priority     int
	payloadBytes int
	// offset is where in the cycle its transmit times lie.
	offset time.Duration
	// flood makes it send as fast as it can.
	flood bool
}

// companionsOf are the talkers beside the measured one, those that flood first.
func companionsOf(workload string, cycle time.Duration) []companion {
	if !hasGates(workload) {
		return nil
	}
	var all []companion
	switch workload {
	case WorkloadGatesSaturated:
		all = append(all, companion{name: "saturating talker", path: PathDirect, priority: priorityFlood,
			payloadBytes: floodPayload, flood: true})
	case WorkloadKernelSaturated:
		all = append(all, companion{name: "saturating sender", path: PathKernelVXLAN, priority: priorityFlood,
			payloadBytes: floodPayload, flood: true})
	}
	return append(all, companion{name: "talker of class 6", path: PathDirect, priority: priorityBeside,
		payloadBytes: gatesPayload, offset: middleOf(priorityBeside, cycle)})
}

func hasGates(workload string) bool {
	return workload == WorkloadGates || workload == WorkloadGatesSaturated || workload == WorkloadKernelSaturated
}

// priorityOf is SO_PRIORITY of the measured talker.
func priorityOf(workload string) int {
	if hasGates(workload) {
		return priorityMeasured
	}
	return 0
}

// leadOf is how long before its transmit time a timed message is handed over.
func leadOf(workload string, cycle time.Duration) time.Duration {
	if hasGates(workload) {
		return gatesLeadTenths * cycle / 10
	}
	return lead
}

// offsetOf is where in the cycle the measured talker's transmit times lie.
func offsetOf(workload string, cycle time.Duration) time.Duration {
	if hasGates(workload) {
		return middleOf(priorityMeasured, cycle)
	}
	return 0
}
