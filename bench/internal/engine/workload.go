// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

const (
	// FloodPayload is that of who floods: nearly all that the overlay carries.
	FloodPayload = 1400
	// FloodClass is the traffic class of who floods under a schedule, floodFrameBits what a frame of it takes of the
	// link: UDP, IPv4 and Ethernet headers twice, VXLAN, CRC, preamble and gap are around the payload.
	FloodClass     = 1
	floodFrameBits = 8 * (FloodPayload + 2*(8+20+14) + 8 + 4 + 8 + 12)
	// GatesPayload is that of the talkers under a schedule, where a profile says nothing else.
	GatesPayload = 256
	// PMDMaxSleep is how long Open vSwitch's polling may pause in workload pmd-sleep.
	PMDMaxSleep = 50 * time.Microsecond
	// gatesRunTime bounds a run with gates: while one class saturates its window, ktsnd remembers the departures
	// of little more than a second.
	gatesRunTime = 500 * time.Millisecond
)

// AllPaths are the paths between namespaces of this machine, in the order in which they take turns.
var AllPaths = slices.Concat(PodPaths, guestPaths)

// PodPaths are those without virtual machines.
var PodPaths = []string{results.PathDirect, results.PathKernelVXLANSpin, results.PathKernelVXLAN, results.PathHostSpin,
	results.PathHost, results.PathOVS}

var guestPaths = []string{results.PathGuestTap, results.PathGuestVhost, results.PathGuestReleased}

// casePaths are those between virtual machines whose clocks are set by their hosts', with and without a schedule.
var casePaths = []string{results.PathGuestKernel, results.PathGuestTap, results.PathGuestTaprio}

// AllWorkloads are the workloads in the order in which they are measured.
var AllWorkloads = []string{results.WorkloadPlain, results.WorkloadUnsampled, results.WorkloadTalkers,
	results.WorkloadCompeting, results.WorkloadSaturated, results.WorkloadGuestLoad, results.WorkloadKeepAwake, results.WorkloadPMDSleep,
	results.WorkloadGates, results.WorkloadGatesSaturated, results.WorkloadKernelSaturated,
	results.WorkloadGatesIperf3}

// GateWorkloads take turns under one schedule. Only ktsnd's path has gates.
var GateWorkloads = []string{results.WorkloadGates, results.WorkloadGatesSaturated, results.WorkloadKernelSaturated,
	results.WorkloadGatesIperf3}

// HasGates tells whether a workload has a schedule.
func HasGates(workload string) bool {
	return slices.Contains(GateWorkloads, workload)
}

// needsDirect tells whether a workload means nothing without ktsnd's path.
func needsDirect(workload string) bool {
	return HasGates(workload) || workload == results.WorkloadKeepAwake
}

// needsOVS tells whether a workload is one of path ovs alone.
func needsOVS(workload string) bool { return workload == results.WorkloadPMDSleep }

// throughOVS is how a workload wants the target where it goes through Open vSwitch, as does all else of the pod then.
func throughOVS(workload string) Setting {
	setting := Setting{Daemon: true, OVS: true, KeepAwake: workload == results.WorkloadKeepAwake}
	if workload == results.WorkloadPMDSleep {
		setting.PMDMaxSleep = PMDMaxSleep
	}
	return setting
}

// settingOf is how a workload wants the target.
func settingOf(workload Workload, cycle time.Duration, profile *Profile, daemon bool) Setting {
	setting := Setting{Daemon: daemon, KeepAwake: workload.Name == results.WorkloadKeepAwake, Guests: profile.InGuests()}
	if HasGates(workload.Name) || profile.besideSchedule(workload) {
		setting.GatesCycle, setting.Window, setting.VLAN = cycle, profile.Window, profile.VLAN
	}
	return setting
}

// besideSchedule tells whether a workload may be measured while there is a schedule, which its paths have nothing to do with: virtual
// machines take long to boot.
func (p *Profile) besideSchedule(workload Workload) bool {
	paths, _, _ := p.forWorkload(workload)
	return p.Target == Guest.Name && slices.ContainsFunc(p.workloadNames(), HasGates) && slices.Equal(paths, []string{results.PathGuestKernel})
}

// longestRun is how many messages of each talker a run can have: what ktsnd remembers of departures bounds it.
func longestRun(workload, path string, cycle time.Duration, talkers int) int {
	floods := HasGates(workload) && workload != results.WorkloadGatesIperf3 // which ktsnd never sees
	if floods && !slices.Contains(casePaths, path) {
		return max(int(gatesRunTime/cycle), 2)
	}
	return maxMessagesPerRun / talkers
}

// baseWorkload is what a workload is compared with; empty for plain.
func baseWorkload(workload string) string {
	switch {
	case workload == results.WorkloadPlain, workload == results.WorkloadGates:
		return ""
	case HasGates(workload):
		return results.WorkloadGates
	}
	return results.WorkloadPlain
}
