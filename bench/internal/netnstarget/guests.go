// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/guestrig"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/node/taprio"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
)

// guests are the virtual machines of a setting, and node b's ktsnd, by which the listener receives with vhost-user.
type guests struct {
	*guestrig.Rig
	receiver *daemon
}

// spinning is a program that keeps a processor busy until it is stopped.
var spinning = []string{"sh", "-c", "while :; do :; done"}

// enterGuests boots a virtual machine on each node.
func (l *Target) enterGuests(ctx context.Context, setting engine.Setting) error {
	receiver, err := startDaemon(ctx, l.nodes, l.programs.ktsnd, daemonSetting{receiving: true, cpu: l.pinning.listener, spin: l.scheduling.spin})
	if err != nil {
		return err
	}
	l.guests = &guests{receiver: receiver}
	l.guests.Rig, err = guestrig.Open(ctx, l.guestParts, l.nodes,
		guestrig.Node{Namespace: l.nodes.NodeA, Side: l.wiring.A, Client: l.daemon.client, Control: l.daemon.control},
		guestrig.Node{Namespace: l.nodes.NodeB, Side: l.wiring.B, Client: receiver.client, Control: receiver.control}, l.guestInterfaces)
	if err != nil {
		return err
	}
	l.describeGuests()
	if setting.GatesCycle == 0 || !slices.Contains(l.guestInterfaces.A, guestrig.Gated) {
		return nil
	}
	return l.guests.schedule(ctx, setting)
}

// schedule makes the kernel of the talker's machine execute the schedule on the interface for it, with the commands of
// `ktsn schedule export`. The window of the messages is longer there, and etf may hand a frame over when it opens.
func (g *guests) schedule(ctx context.Context, setting engine.Setting) error {
	window, cycle := setting.Window.On(results.PathGuestTaprio), setting.GatesCycle*time.Duration(max(setting.Window.Stretch, 1))
	options := taprio.Options{Device: guestrig.Gated, Classes: traffic.KernelClasses, ETF: true, ETFClasses: []int{traffic.KernelWindowClass},
		Delta: max(window.Offset, leastDelta), VLAN: setting.VLAN}
	options.CodePoints[traffic.KernelWindowClass] = traffic.KernelWindowPCP
	commands, err := taprio.Commands(traffic.KernelScheduleOf(cycle, window), &options)
	if err != nil {
		return fmt.Errorf("write the schedule of the talker's machine: %w", err)
	}
	for _, command := range commands {
		if output, err := g.A.Run(ctx, command...); err != nil {
			return fmt.Errorf("have the talker's machine execute the schedule: %w (%s)", err, output)
		}
	}
	if setting.VLAN == 0 {
		return nil
	}
	return g.Tag(ctx, guestrig.Gated, setting.VLAN)
}

// leastDelta is etf's delta for a window whose messages are due when it opens.
const leastDelta = 100 * time.Microsecond

// interfacesFor returns the interfaces of a profile's messages between virtual machines.
func interfacesFor(profile *engine.Profile) guestrig.Interfaces {
	has := guestrig.Interfaces{A: []string{guestrig.Tap}, B: []string{guestrig.Tap}}
	add := func(to *[]string, name string) {
		if !slices.Contains(*to, name) {
			*to = append(*to, name)
		}
	}
	for _, path := range profile.Paths {
		from, to := interfaceOf(path)
		add(&has.A, from)
		add(&has.B, to)
	}
	return has
}

// describeGuests describes these machines for the report.
func (l *Target) describeGuests() {
	kernel, qemu := l.guestParts.Version()
	l.environment.Emulated = fmt.Sprintf("The processors of the virtual machines are emulated (QEMU %s, Linux %s, 2 processors each, on one thread): their programs are "+
		"orders of magnitude slower than with KVM. Compare within this run only.", qemu, kernel)
}

// leaveGuests ends them.
func (l *Target) leaveGuests() error {
	if l.guests == nil {
		return nil
	}
	var err error
	if l.guests.Rig != nil {
		err = l.guests.Close()
	}
	err = errors.Join(err, l.guests.receiver.stop())
	l.guests = nil
	return err
}

// load keeps the processors of the talker's machine busy until it is released.
func (g *guests) load() (release func(), err error) {
	var programs []*guestmachine.Program
	release = func() {
		for _, program := range programs {
			_ = program.Stop() // the run fails if the machine has ended
		}
	}
	for range guestrig.Processors {
		program, err := g.A.Start(spinning...)
		if err != nil {
			release()
			return nil, err
		}
		programs = append(programs, program)
	}
	return release, nil
}

// interfaceOf returns the interfaces by which a path's messages leave a virtual machine, and arrive.
func interfaceOf(path string) (from, to string) {
	switch path {
	case results.PathGuestVhost:
		return guestrig.Vhost, guestrig.Vhost
	case results.PathGuestReleased:
		return guestrig.Released, guestrig.Tap
	case results.PathGuestTaprio:
		return guestrig.Gated, guestrig.Tap
	}
	return guestrig.Tap, guestrig.Tap
}
