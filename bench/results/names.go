// SPDX-License-Identifier: Apache-2.0

package results

import (
	"fmt"
	"strings"
)

// The paths that a message can take between nodes: of network namespaces, and of a cluster. PathHost is in both.
const (
	PathDirect      = "direct"
	PathKernelVXLAN = "kernel-vxlan"
	PathHost        = "host"
	// PathKernelVXLANSpin and PathHostSpin are the same with a talker that is awake before it sends, as ktsnd is: the strongest
	// that an ordinary program can do there.
	PathKernelVXLANSpin = PathKernelVXLAN + spinning
	PathHostSpin        = PathHost + spinning
	// PathOVS is that of pods whose ktsnd sends through Open vSwitch.
	PathOVS = "ovs"
	// PathGuestTap and PathGuestVhost are between virtual machines on different nodes, by a tap and by vhost-user: the talker's host
	// holds frames until their times. PathGuestReleased is by a tap, and the talker's own etf holds them.
	PathGuestTap      = inGuest + "tap"
	PathGuestVhost    = inGuest + "vhost"
	PathGuestReleased = inGuest + "released"
	// PathGuestKernel is between them without transmit times: the talker sleeps until the time and sends. On PathGuestTaprio the
	// talker's own taprio executes the schedule, and an etf below it holds frames.
	PathGuestKernel = inGuest + "kernel"
	PathGuestTaprio = inGuest + "taprio"
	// PathTSN is between pods through ktsnd, PathPrimary by the network that each pod has.
	PathTSN     = "tsn"
	PathPrimary = "primary"
	// PathPrimarySpin is as PathKernelVXLANSpin is.
	PathPrimarySpin = PathPrimary + spinning
)

// spinning ends the names of paths whose talker is awake before it sends.
const spinning = "-spin"

// inGuest begins the names of paths between virtual machines.
const inGuest = "guest-"

// InGuest tells whether a path is between virtual machines, whose clocks are their own.
func InGuest(path string) bool { return strings.HasPrefix(path, inGuest) }

// Spins tells whether a path's talker is awake before it sends. That of all others sleeps until then.
func Spins(path string) bool { return strings.HasSuffix(path, spinning) }

// Route is the path whose route the messages of a path take: its own, or that of the same path with a talker that sleeps.
func Route(path string) string { return strings.TrimSuffix(path, spinning) }

// ThroughKtsnd tells whether a path's messages are ktsnd's, which sends them at their times.
func ThroughKtsnd(path string) bool {
	return path == PathDirect || path == PathTSN || path == PathOVS || path == PathGuestTap || path == PathGuestVhost
}

// The workloads: what is beside the messages that are measured.
const (
	// WorkloadPlain is a run without competing traffic, schedule or special setting.
	WorkloadPlain = "plain"
	// WorkloadUnsampled is the same without the bench's own samplers, to show what they cost.
	WorkloadUnsampled = "unsampled"
	// WorkloadWatched stands in ratios for the same with them, where plain runs are without.
	WorkloadWatched = "watched"
	// WorkloadGuestLoad keeps all processors of the talker's virtual machine busy, whichever path is measured.
	WorkloadGuestLoad = "guest-load"
	// WorkloadKeepAwake marks the runs in which ktsnd keeps its core from sleeping. Talker and ktsnd share
	// that core, so it helps all paths alike.
	WorkloadKeepAwake = "keep-awake"
	// WorkloadPMDSleep is path ovs with an Open vSwitch whose polling may pause when there is nothing.
	WorkloadPMDSleep = "pmd-sleep"
	// WorkloadTalkers has several talkers, each with its own transmit times, and measures the messages of all.
	WorkloadTalkers = "talkers"
	// WorkloadCompeting has other flows between the same pods, of a fixed rate.
	WorkloadCompeting = "competing"
	// WorkloadSaturated has a sender between the same pods that sends as fast as it can.
	WorkloadSaturated = "saturated"
	// WorkloadGates has a schedule: the messages are of the most important class, and another class has its own.
	WorkloadGates = "gates"
	// WorkloadGatesSaturated adds a talker to it that fills the window of the least important classes.
	WorkloadGatesSaturated = "gates-saturated"
	// WorkloadKernelSaturated adds to WorkloadGates a sender that floods the kernel's path beside ktsnd.
	WorkloadKernelSaturated = "kernel-saturated"
	// WorkloadGatesIperf3 adds to WorkloadGates an iperf3 that saturates the kernel's path beside ktsnd.
	WorkloadGatesIperf3 = "gates-iperf3"
)

// Key tells what was measured from what was measured beside it.
type Key struct {
	Path         string `json:"path"`
	Workload     string `json:"workload"`
	PayloadBytes int    `json:"payload_bytes"`
	CycleNs      int64  `json:"cycle_ns"`
}

// String names it for a sentence.
func (k Key) String() string {
	return fmt.Sprintf("%s, %d B, %s", k.Path, k.PayloadBytes, k.Workload)
}

// Key returns the run's.
func (r *Run) Key() Key {
	return Key{r.Path, r.Workload, r.PayloadBytes, r.CycleNs}
}
