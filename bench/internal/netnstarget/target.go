// SPDX-License-Identifier: Apache-2.0

// Package netnstarget performs the runs of a bench on one machine: two nodes and two pods as network namespaces, the
// real ktsnd and libktsn, and an application (tsnperf) that sends one message per cycle.
//
//	direct        talker in pod a, libktsn, ktsnd on node a   -> VXLAN, bridge, veth of node b -> pod b
//	kernel-vxlan  talker in pod a, veth, bridge, VXLAN        -> VXLAN, bridge, veth of node b -> pod b
//	host          talker on node a                            -> listener on node b
//
// The talkers of the last two sleep until they send. On paths kernel-vxlan-spin and host-spin they busy-wait before
// each send, like ktsnd.
//
// The files: target (settings and runs), programs, pinning and scheduling (prerequisites), daemon and gates (ktsnd and
// its schedule), run, companions, watch, sampler and stamping (one run), clock (the accuracy of the times).
package netnstarget

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/guestrig"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
	"github.com/kubernetsn/kubernetsn/internal/testlab/ovsnode"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// Target performs runs. It implements engine.Target. It is not safe for concurrent use.
type Target struct {
	nodes       *topology.Topology
	programs    Programs
	pinning     pinning
	scheduling  scheduling
	spins       bool // a path of the profile has talkers that are scheduled like ktsnd
	wiring      *cniruntime.Wiring
	environment engine.Environment
	// prepared: setting is in force, and pod a is attached.
	prepared bool
	setting  engine.Setting
	// daemon is nil if no path needs it.
	daemon *daemon
	// ovs is nil if nothing uses Open vSwitch.
	ovs *ovsnode.Node
	// guests is nil if no path is between virtual machines; guestParts are the machines' parts.
	guests     *guests
	guestParts *guestrig.Parts
	// guestInterfaces are the interfaces of messages between them; followed: the talker's machine follows the host's
	// clock.
	guestInterfaces guestrig.Interfaces
	followed        bool
	// stamping is nil if no run is sampled.
	stamping *stamping
	// lastRunID distinguishes the messages of runs.
	lastRunID uint32
}

// Open creates nodes and pods, or leaves nothing behind. Close removes them.
func Open(ctx context.Context, programs *Programs, profile *engine.Profile) (_ *Target, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("network namespaces are made by root only; try it with sudo")
	}
	pinning, err := choosePinning(profile.Pinning)
	if err != nil {
		return nil, err
	}
	scheduling, err := chooseScheduling(profile.Spin)
	if err != nil {
		return nil, err
	}
	clock, err := measureClock()
	if err != nil {
		return nil, err
	}
	nodes, err := topology.Create(ctx)
	if err != nil {
		return nil, err
	}
	l := &Target{nodes: nodes, programs: *programs, pinning: pinning, scheduling: scheduling,
		spins: slices.ContainsFunc(profile.Paths, results.Spins), wiring: cniruntime.Wire(nodes, programs.plugins, podIdentity),
		guestParts: programs.Guests, guestInterfaces: interfacesFor(profile), followed: profile.Target == engine.Guest.Name, environment: engine.Environment{SenderCPU: pinning.sender, ListenerCPU: pinning.listener, LeadNs: traffic.LeadOfPlain(profile).Nanoseconds(),
			TalkerSpinNs: scheduling.spin.Nanoseconds(), TalkerPriority: scheduling.fifo,
			Programs: programs.sums, Clock: clock, NotMeasured: notMeasured(), Warnings: []string{}}}
	// The receiving node needs no ktsnd.
	if l.programs.library, err = nodes.Preloadable(programs.library); err == nil {
		err = l.wiring.B.Attach(ctx, nil, "")
	}
	if err != nil {
		return nil, errors.Join(err, nodes.Destroy())
	}
	return l, nil
}

// notMeasured lists what network namespaces cannot show.
func notMeasured() []results.Gap {
	return []results.Gap{
		{What: "a network card: serialisation, propagation, interrupts, stamps of hardware", Why: "the link is a veth pair"},
		{What: "the error of clock synchronisation between hosts", Why: "both nodes are on one machine and have one clock"},
		{What: "the host's path with SO_TXTIME", Why: "the talker sleeps and sends: the kernel's queueing disciplines for transmit times (etf, fq) are for " +
			"cards, and not on this veth"},
	}
}

// Dir is a folder of the target, which is removed with it.
func (l *Target) Dir() string { return l.nodes.Dir }

// Environment describes the target, and ktsnd once it was started.
func (l *Target) Environment() engine.Environment {
	environment := l.environment
	environment.Warnings = slices.Clone(environment.Warnings)
	return environment
}

// Host is this machine.
func (l *Target) Host() (results.Host, error) { return results.DescribeHost(time.Now()) }

// Close ends and removes everything.
func (l *Target) Close(ctx context.Context) error {
	return errors.Join(l.stamp(false), l.leave(context.WithoutCancel(ctx)), l.nodes.Destroy())
}

// leave ends the setting.
func (l *Target) leave(ctx context.Context) error {
	l.prepared = false
	err := errors.Join(l.leaveGuests(), l.wiring.A.Detach(ctx))
	if l.daemon != nil {
		l.collectWarnings()
		err = errors.Join(err, l.daemon.stop())
		l.daemon = nil
	}
	return errors.Join(err, l.leaveOVS(ctx))
}

// Prepare brings the target into a setting, with a new ktsnd.
func (l *Target) Prepare(ctx context.Context, setting engine.Setting) error {
	if l.prepared && l.setting == setting {
		return nil
	}
	if err := l.leave(ctx); err != nil {
		return err
	}
	if err := l.enter(ctx, setting); err != nil {
		return l.explain(err)
	}
	l.setting, l.prepared = setting, true
	return nil
}

// explain adds ktsnd's own error if it has ended.
func (l *Target) explain(err error) error {
	if l.daemon == nil {
		return err
	}
	return l.daemon.explain(err)
}

func (l *Target) enter(ctx context.Context, setting engine.Setting) (err error) {
	var client *control.Client
	var controlSocket string
	if setting.OVS {
		if err := l.enterOVS(ctx, setting); err != nil {
			return err
		}
	}
	if setting.VLAN != 0 {
		if err := l.nodes.TakeTags(); err != nil {
			return err
		}
	}
	if setting.Daemon {
		l.daemon, err = startDaemon(ctx, l.nodes, l.programs.ktsnd, l.daemonSetting(setting))
		if err != nil {
			return err
		}
		client, controlSocket = l.daemon.client, l.daemon.control
		if err := l.describeDaemon(ctx); err != nil {
			return err
		}
	}
	if err := l.awaitOVS(ctx); err != nil {
		return err
	}
	if err := l.wiring.A.Attach(ctx, client, controlSocket); err != nil {
		return err
	}
	if setting.Guests {
		if err := l.enterGuests(ctx, setting); err != nil {
			return err
		}
	}
	if setting.GatesCycle == 0 {
		return nil
	}
	return l.setSchedule(ctx, setting)
}

func (l *Target) daemonSetting(setting engine.Setting) daemonSetting {
	wanted := daemonSetting{cpu: l.pinning.sender, spin: l.scheduling.spin, keepAwake: setting.KeepAwake, departures: setting.Departures, podRate: setting.PodRate}
	if setting.GatesCycle != 0 {
		wanted.linkSpeed, wanted.vlan = gatesLinkSpeed, setting.VLAN
	}
	if l.ovs != nil {
		wanted.vhostSocket = l.ovs.VhostSocket()
	}
	return wanted
}

func (l *Target) setSchedule(ctx context.Context, setting engine.Setting) error {
	schedule, err := l.daemon.setSchedule(ctx, setting.GatesCycle, setting.Window)
	if err != nil {
		return err
	}
	lead := traffic.LeadOf(results.WorkloadGates, setting.GatesCycle, setting.Window)
	if setting.Guests {
		lead = setting.Window.On(results.PathGuestTap).Lead(setting.GatesCycle, results.PathGuestTap)
	}
	l.environment.Gates = &results.GateSetup{LeadNs: lead.Nanoseconds(),
		LinkSpeedBps: schedule.LinkSpeedBps, GuardBandNs: schedule.GuardBandNs}
	return nil
}

// collectWarnings stores each different warning of ktsnd.
func (l *Target) collectWarnings() {
	for _, warning := range l.daemon.process.Said() {
		if !slices.Contains(l.environment.Warnings, warning) {
			l.environment.Warnings = append(l.environment.Warnings, warning)
		}
	}
}

func (l *Target) describeDaemon(ctx context.Context) error {
	status, err := l.daemon.client.Status(ctx)
	if err != nil {
		return err
	}
	environment := &l.environment
	environment.KtsndVersion, environment.SpinNs = status.KtsndVersion, status.SpinNs
	environment.Scheduler, environment.SchedulerPriority = status.Scheduler, status.SchedulerPriority
	l.collectWarnings()
	if !l.spins {
		return nil
	}
	return l.scheduling.check(status)
}

// Perform performs one run.
func (l *Target) Perform(ctx context.Context, run engine.Run) (*engine.Outcome, error) {
	if run.IdleNs > 0 {
		return l.idle(ctx, time.Duration(run.IdleNs))
	}
	before, err := results.ReadCPUTimes()
	if err != nil {
		return nil, err
	}
	outcome, err := l.perform(ctx, run)
	if err != nil {
		return nil, l.explain(err)
	}
	after, err := results.ReadCPUTimes()
	outcome.StolenNs = int64(after.Stolen - before.Stolen)
	return outcome, err
}

// idle watches ktsnd with nothing to send.
func (l *Target) idle(ctx context.Context, duration time.Duration) (*engine.Outcome, error) {
	cores, err := l.daemon.idleCores(ctx, duration)
	if err != nil {
		return nil, l.explain(err)
	}
	return &engine.Outcome{Idle: &results.Idle{DurationNs: duration.Nanoseconds(), CPUCores: map[string]float64{"ktsnd": cores}}}, nil
}
