// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// Means are the paths and workloads of a kind of target.
type Means struct {
	// Name is the name in profiles.
	Name string
	// Paths are in the order of their turns. Direct is the path through ktsnd, Kernel the kernel's between pods.
	Paths          []string
	Direct, Kernel string
	// Gated are the paths with a schedule.
	Gated     []string
	Workloads []string
	// Missing are the paths and workloads that only other kinds have, and why.
	Missing map[string]string
	// Counterparts replace the paths of other kinds in a profile that names no target.
	Counterparts map[string]string
	// Overhead is the additional duration of a run; it only affects the estimated time left.
	Overhead time.Duration
	// Idle: ktsnd can be watched with nothing to send. Options: the bench starts ktsnd and reports its options.
	Idle, Options bool
}

const (
	betweenPods    = "it is between pods of a cluster, and this bench measures between network namespaces; `--kubeconfig` names a cluster"
	primaryInstead = "the network that each pod of this cluster has, whichever it is, is path " + results.PathPrimary
	clustersUplink = "whether ktsnd sends through Open vSwitch is up to the cluster, which a bench leaves alone; it is part of path " +
		results.PathTSN
	othersOptions = "ktsnd's options are those of the cluster, which a bench leaves alone"
	// flannelSpin is an alias of primary-spin in profiles, used by the tests of the chart.
	flannelSpin    = "flannel-spin"
	betweenGuests  = "it is between virtual machines that the bench boots on two nodes of this machine, and not in a cluster"
	othersSchedule = "the schedule is that of the cluster, which a bench leaves alone"
	guestsSchedule = "it is between virtual machines that have a schedule, and this bench is between pods; `--target guest` asks for them"
	onlyPods       = "it is not between virtual machines; leave `--target guest` out"
	onlyCases      = "it is not measured between virtual machines with a schedule; leave `--target guest` out"
)

// Namespaces are network namespaces of this machine.
var Namespaces = &Means{
	Name:      "namespaces",
	Paths:     AllPaths,
	Direct:    results.PathDirect,
	Kernel:    results.PathKernelVXLAN,
	Gated:     []string{results.PathDirect},
	Workloads: AllWorkloads,
	Missing: map[string]string{results.PathTSN: betweenPods, results.PathPrimary: betweenPods, "flannel": betweenPods,
		results.PathPrimarySpin: betweenPods, flannelSpin: betweenPods,
		"flannel-host-gw": betweenPods, results.PathGuestKernel: guestsSchedule, results.PathGuestTaprio: guestsSchedule},
	Idle: true, Options: true,
}

// Guest are virtual machines on two network namespaces of this machine, in the cases of the experiment with TSN in Kata
// containers.
var Guest = &Means{
	Name:   "guest",
	Paths:  casePaths,
	Direct: results.PathGuestTap,
	Kernel: results.PathGuestKernel,
	Gated:  []string{results.PathGuestTap, results.PathGuestTaprio},
	Workloads: []string{results.WorkloadPlain, results.WorkloadCompeting, results.WorkloadSaturated, results.WorkloadGuestLoad,
		results.WorkloadGates, results.WorkloadGatesIperf3},
	Missing: map[string]string{
		results.PathDirect: onlyPods, results.PathKernelVXLAN: onlyPods, results.PathKernelVXLANSpin: onlyPods, results.PathHost: onlyPods,
		results.PathHostSpin: onlyPods, results.PathOVS: onlyPods, results.PathGuestVhost: onlyCases, results.PathGuestReleased: onlyCases,
		results.WorkloadUnsampled: onlyCases, results.WorkloadTalkers: onlyCases, results.WorkloadKeepAwake: onlyCases,
		results.WorkloadPMDSleep: onlyPods, results.WorkloadGatesSaturated: onlyCases, results.WorkloadKernelSaturated: onlyCases,
	},
	Counterparts: map[string]string{results.PathDirect: results.PathGuestTap, results.PathKernelVXLAN: results.PathGuestKernel},
	Overhead:     3 * time.Second, // programs start in emulated machines
	Options:      true,
}

// Cluster is a cluster, between pods on different nodes.
var Cluster = &Means{
	Name: "cluster",
	Paths: []string{results.PathTSN, results.PathPrimarySpin, results.PathPrimary, results.PathHostSpin,
		results.PathHost},
	Direct: results.PathTSN,
	Kernel: results.PathPrimary,
	Gated:  []string{results.PathTSN},
	Workloads: []string{results.WorkloadPlain, results.WorkloadTalkers, results.WorkloadCompeting,
		results.WorkloadSaturated},
	Missing: map[string]string{
		results.PathOVS:                 clustersUplink,
		results.PathGuestTap:            betweenGuests,
		results.PathGuestVhost:          betweenGuests,
		results.PathGuestReleased:       betweenGuests,
		results.PathGuestKernel:         betweenGuests,
		results.PathGuestTaprio:         betweenGuests,
		results.WorkloadGuestLoad:       betweenGuests,
		"flannel":                       primaryInstead,
		flannelSpin:                     primaryInstead + ", or " + results.PathPrimarySpin + " with a talker that spins",
		"flannel-host-gw":               primaryInstead,
		results.PathDirect:              "it is between network namespaces; in a cluster its counterpart is path " + results.PathTSN,
		results.PathKernelVXLAN:         "it is between network namespaces; in a cluster its counterpart is path " + results.PathPrimary,
		results.WorkloadUnsampled:       "nothing of the bench runs on the nodes while there are messages, so all its runs are",
		results.PathKernelVXLANSpin:     "it is between network namespaces; in a cluster its counterpart is path " + results.PathPrimarySpin,
		results.WorkloadKeepAwake:       othersOptions,
		results.WorkloadPMDSleep:        clustersUplink,
		results.WorkloadGates:           othersSchedule,
		results.WorkloadGatesSaturated:  othersSchedule,
		results.WorkloadKernelSaturated: othersSchedule,
		results.WorkloadGatesIperf3:     othersSchedule,
	},
	Overhead: 1500 * time.Millisecond, // programs start in pods through the cluster's API
	Counterparts: map[string]string{results.PathDirect: results.PathTSN, results.PathKernelVXLAN: results.PathPrimary,
		results.PathKernelVXLANSpin: results.PathPrimarySpin, flannelSpin: results.PathPrimarySpin},
}

// noIdle is why ktsnd in a cluster or below virtual machines is not watched with nothing to send.
const noIdle = "its ktsnd may have something to send for others"

// means returns the means of the profile's target.
func (p *Profile) means() *Means {
	if placed := p.onTestbed(); placed != nil {
		return placed.Means(p.Target)
	}
	switch p.Target {
	case Cluster.Name:
		return Cluster
	case Guest.Name:
		return Guest
	}
	return Namespaces
}

// settle applies a profile without a target to a kind of target: paths are replaced by their counterparts, and what is
// missing there is left out, with the reason.
func (p *Profile) settle(on *Means) {
	p.Target = on.Name
	on = p.means() // an experiment may have its own
	p.leaveMissing(on)
	counterparts := func(paths []string) {
		for i, path := range paths {
			if there, known := on.Counterparts[path]; known {
				paths[i] = there
			}
		}
	}
	counterparts(p.Paths)
	counterparts(p.IfPossible)
	p.Workloads = slices.DeleteFunc(p.Workloads, func(workload Workload) bool {
		why, missing := on.Missing[workload.Name]
		if missing {
			p.Lacking = append(p.Lacking, results.Gap{What: "workload " + workload.Name, Why: why})
		}
		return missing
	})
	for _, workload := range p.Workloads {
		counterparts(workload.Paths)
	}
	if !slices.ContainsFunc(on.Workloads, HasGates) {
		p.leaveWindow()
	}
	if p.Idle > 0 && !on.Idle {
		p.Idle = 0
		p.Lacking = append(p.Lacking, results.Gap{What: "ktsnd with nothing to send", Why: noIdle})
	}
}

// TestbedExperiment is an experiment with its own paths.
type TestbedExperiment interface {
	// Means are its means on a kind of target.
	Means(target string) *Means
}

// onTestbed returns the profile's experiment if it has its own means, or nil.
func (p *Profile) onTestbed() TestbedExperiment {
	experiment, err := p.experiment()
	if err != nil {
		return nil
	}
	placed, _ := experiment.(TestbedExperiment)
	return placed
}

// OnTestbed reports whether the profile's experiment has its own means, and so needs its own target.
func (p *Profile) OnTestbed() bool { return p.onTestbed() != nil }

// leaveMissing leaves out the paths of an experiment that have no counterpart, unless no other is left.
func (p *Profile) leaveMissing(on *Means) {
	if p.Experiment == "" {
		return
	}
	var left []string
	for _, path := range p.Paths {
		if _, counterpart := on.Counterparts[path]; slices.Contains(on.Paths, path) || counterpart || on.Missing[path] == "" {
			left = append(left, path)
		}
	}
	if len(left) == 0 {
		return // which is an error later
	}
	for _, path := range p.Paths {
		if !slices.Contains(left, path) {
			p.Lacking = append(p.Lacking, results.Gap{What: "path " + path, Why: on.Missing[path]})
		}
	}
	p.Paths = left
}

// checkTarget returns an error for parts of a profile that the kind of target does not have.
func (p *Profile) checkTarget() *Fault {
	on := p.means()
	for i, workload := range p.Workloads {
		if why, missing := on.Missing[workload.Name]; missing {
			return fault("workloads", i, "workload %s cannot be measured: %s; leave it out", workload.Name, why)
		}
	}
	if p.Experiment != "" && p.Target == Guest.Name {
		return fault("experiment", -1, "%s, and no experiment is made in virtual machines; leave `--target guest` out", p.Experiment)
	}
	if p.Idle > 0 && !on.Idle {
		return fault("idle", -1, "%v in a %s: %s; leave it out", p.Idle, on.Name, noIdle)
	}
	if p.Spin != defaultSpin && !on.Options {
		return fault("spin", -1, "%v in a cluster: %s; leave it out", p.Spin, othersOptions)
	}
	if len(p.Workloads) == 0 && len(p.Lacking) > 0 {
		return fault("workloads", -1, "nothing of it can be measured in a %s; it has %v", on.Name, on.Workloads)
	}
	return nil
}

// otherTarget returns the end of a message about a profile for another kind of target.
func otherTarget(asked string, there *Means) error {
	switch {
	case asked == Cluster.Name:
		return fmt.Errorf("is %s, and no --kubeconfig says which; give one", asked)
	case there == Cluster:
		return fmt.Errorf("is %s, and --kubeconfig asks for a cluster; leave one of them out", asked)
	case there == Guest:
		return fmt.Errorf("is %s, and --target asks for virtual machines; leave one of them out", asked)
	}
	return fmt.Errorf("is %s, and this bench is between network namespaces; give --target %s", asked, asked)
}
