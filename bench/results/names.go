// SPDX-License-Identifier: Apache-2.0

package results

import (
	"fmt"
	"strings"
)

// The paths of messages between nodes, in network namespaces and in a cluster. PathHost exists in both.
const (
	PathDirect      = "direct"
	PathKernelVXLAN = "kernel-vxlan"
	PathHost        = "host"
	// PathKernelVXLANSpin and PathHostSpin have talkers that busy-wait before each send like ktsnd: the fair baselines.
	PathKernelVXLANSpin = PathKernelVXLAN + spinning
	PathHostSpin        = PathHost + spinning
	// PathOVS is the path of pods whose ktsnd sends through Open vSwitch.
	PathOVS = "ovs"
	// PathGuestTap and PathGuestVhost are between virtual machines on different nodes, by a tap and by vhost-user: the
	// talker's host holds frames until their times. PathGuestReleased uses a tap, and the talker's own etf holds them.
	PathGuestTap      = inGuest + "tap"
	PathGuestVhost    = inGuest + "vhost"
	PathGuestReleased = inGuest + "released"
	// PathGuestKernel has no transmit times: the talker sleeps until the time and sends. On PathGuestTaprio the
	// talker's own taprio executes the schedule, with an etf below it.
	PathGuestKernel = inGuest + "kernel"
	PathGuestTaprio = inGuest + "taprio"
	// PathTSN is between pods through ktsnd, PathPrimary by the network that each pod has.
	PathTSN     = "tsn"
	PathPrimary = "primary"
	// PathPrimarySpin has a talker like PathKernelVXLANSpin.
	PathPrimarySpin = PathPrimary + spinning
)

// spinning ends the names of paths whose talker busy-waits before it sends.
const spinning = "-spin"

// inGuest begins the names of paths between virtual machines.
const inGuest = "guest-"

// InGuest reports whether a path is between virtual machines, which have their own clocks.
func InGuest(path string) bool { return strings.HasPrefix(path, inGuest) }

// Spins reports whether a path's talker busy-waits before it sends. All others sleep until then.
func Spins(path string) bool { return strings.HasSuffix(path, spinning) }

// Route returns the path with the same route and a sleeping talker.
func Route(path string) string { return strings.TrimSuffix(path, spinning) }

// ThroughKtsnd reports whether ktsnd sends a path's messages at their times.
func ThroughKtsnd(path string) bool {
	return path == PathDirect || path == PathTSN || path == PathOVS || path == PathGuestTap || path == PathGuestVhost
}

// The workloads: the conditions of measured messages.
const (
	// WorkloadPlain has no competing traffic, schedule or special setting.
	WorkloadPlain = "plain"
	// WorkloadUnsampled is the same without the bench's own samplers, to show their cost.
	WorkloadUnsampled = "unsampled"
	// WorkloadWatched stands for watched runs in ratios, if plain runs are unwatched.
	WorkloadWatched = "watched"
	// WorkloadGuestLoad keeps all processors of the talker's virtual machine busy, on every path.
	WorkloadGuestLoad = "guest-load"
	// WorkloadKeepAwake marks the runs in which ktsnd keeps its core from sleeping. Talker and ktsnd share that core,
	// so it helps all paths alike.
	WorkloadKeepAwake = "keep-awake"
	// WorkloadPMDSleep is path ovs with an Open vSwitch whose polling may pause when idle.
	WorkloadPMDSleep = "pmd-sleep"
	// WorkloadTalkers has several talkers with their own transmit times, and measures the messages of all.
	WorkloadTalkers = "talkers"
	// WorkloadCompeting has other flows of a fixed rate between the same pods.
	WorkloadCompeting = "competing"
	// WorkloadSaturated has a sender between the same pods that sends as fast as it can.
	WorkloadSaturated = "saturated"
	// WorkloadGates has a schedule: the messages have the most important class, and another class has its own.
	WorkloadGates = "gates"
	// WorkloadGatesSaturated adds a talker that fills the window of the least important classes.
	WorkloadGatesSaturated = "gates-saturated"
	// WorkloadKernelSaturated adds to WorkloadGates a sender that floods the kernel's path next to ktsnd.
	WorkloadKernelSaturated = "kernel-saturated"
	// WorkloadGatesIperf3 adds to WorkloadGates an iperf3 that saturates the kernel's path next to ktsnd.
	WorkloadGatesIperf3 = "gates-iperf3"
)

// Key identifies a measurement.
type Key struct {
	Path         string `json:"path"`
	Workload     string `json:"workload"`
	PayloadBytes int    `json:"payload_bytes"`
	CycleNs      int64  `json:"cycle_ns"`
}

// String names the key in messages.
func (k Key) String() string {
	return fmt.Sprintf("%s, %d B, %s", k.Path, k.PayloadBytes, k.Workload)
}

// Key returns the run's key.
func (r *Run) Key() Key {
	return Key{r.Path, r.Workload, r.PayloadBytes, r.CycleNs}
}
