// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

const (
	// FloodPayload is the payload of floods: nearly the overlay's maximum.
	FloodPayload = 1400
	// FloodClass is the traffic class of floods under a schedule, floodFrameBits the size of such a frame on the link:
	// payload, UDP, IPv4 and Ethernet headers twice, VXLAN, CRC, preamble and gap.
	FloodClass     = 1
	floodFrameBits = 8 * (FloodPayload + 2*(8+20+14) + 8 + 4 + 8 + 12)
	// GatesPayload is the default payload of the talkers under a schedule.
	GatesPayload = 256
	// PMDMaxSleep is how long Open vSwitch's polling may pause in workload pmd-sleep.
	PMDMaxSleep = 50 * time.Microsecond
	// gatesRunTime limits a run with gates: while one class saturates its window, ktsnd stores the departures of little
	// more than a second.
	gatesRunTime = 500 * time.Millisecond
)

// AllPaths are the paths between namespaces of this machine, in the order of their turns.
var AllPaths = slices.Concat(PodPaths, guestPaths)

// PodPaths are the paths without virtual machines.
var PodPaths = []string{results.PathDirect, results.PathKernelVXLANSpin, results.PathKernelVXLAN, results.PathHostSpin,
	results.PathHost, results.PathOVS}

var guestPaths = []string{results.PathGuestTap, results.PathGuestVhost, results.PathGuestReleased}

// casePaths are those between virtual machines whose clocks their hosts set, with and without a schedule.
var casePaths = []string{results.PathGuestKernel, results.PathGuestTap, results.PathGuestTaprio}

// AllWorkloads are the workloads in the order of measurement.
var AllWorkloads = []string{results.WorkloadPlain, results.WorkloadUnsampled, results.WorkloadTalkers,
	results.WorkloadCompeting, results.WorkloadSaturated, results.WorkloadGuestLoad, results.WorkloadKeepAwake, results.WorkloadPMDSleep,
	results.WorkloadGates, results.WorkloadGatesSaturated, results.WorkloadKernelSaturated,
	results.WorkloadGatesIperf3}

// GateWorkloads take turns under one schedule. Only ktsnd's path has gates.
var GateWorkloads = []string{results.WorkloadGates, results.WorkloadGatesSaturated, results.WorkloadKernelSaturated,
	results.WorkloadGatesIperf3}

// HasGates reports whether a workload has a schedule.
func HasGates(workload string) bool {
	return slices.Contains(GateWorkloads, workload)
}

// needsDirect reports whether a workload has no meaning without ktsnd's path.
func needsDirect(workload string) bool {
	return HasGates(workload) || workload == results.WorkloadKeepAwake
}

// needsOVS reports whether a workload is for path ovs only.
func needsOVS(workload string) bool { return workload == results.WorkloadPMDSleep }

// throughOVS returns a workload's setting with Open vSwitch, which the pod's other traffic then uses as well.
func throughOVS(workload string) Setting {
	setting := Setting{Daemon: true, OVS: true, KeepAwake: workload == results.WorkloadKeepAwake}
	if workload == results.WorkloadPMDSleep {
		setting.PMDMaxSleep = PMDMaxSleep
	}
	return setting
}

// settingOf returns a workload's setting.
func settingOf(workload Workload, cycle time.Duration, profile *Profile, daemon bool) Setting {
	setting := Setting{Daemon: daemon, KeepAwake: workload.Name == results.WorkloadKeepAwake, Guests: profile.InGuests()}
	if HasGates(workload.Name) || profile.besideSchedule(workload) {
		setting.GatesCycle, setting.Window, setting.VLAN = cycle, profile.Window, profile.VLAN
	}
	return setting
}

// besideSchedule reports whether a workload may be measured under a schedule that does not concern its paths: virtual
// machines take long to boot.
func (p *Profile) besideSchedule(workload Workload) bool {
	paths, _, _ := p.forWorkload(workload)
	return p.Target == Guest.Name && slices.ContainsFunc(p.workloadNames(), HasGates) && slices.Equal(paths, []string{results.PathGuestKernel})
}

// longestRun returns the largest number of messages per talker of a run: ktsnd's stored departures limit it.
func longestRun(workload, path string, cycle time.Duration, talkers int) int {
	floods := HasGates(workload) && workload != results.WorkloadGatesIperf3 // ktsnd does not handle iperf3's traffic
	if floods && !slices.Contains(casePaths, path) {
		return max(int(gatesRunTime/cycle), 2)
	}
	return maxMessagesPerRun / talkers
}

// baseWorkload returns the workload to compare with; empty for plain.
func baseWorkload(workload string) string {
	switch {
	case workload == results.WorkloadPlain, workload == results.WorkloadGates:
		return ""
	case HasGates(workload):
		return results.WorkloadGates
	}
	return results.WorkloadPlain
}
