// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubernetsn/kubernetsn/internal/bench/guestmachine"
	"github.com/kubernetsn/kubernetsn/internal/bench/guestrig"
	"github.com/kubernetsn/kubernetsn/internal/bench/results"
)

// guests are the virtual machines of a setting, and the ktsnd of node b, by which the listener's receives with vhost-user.
type guests struct {
	*guestrig.Rig
	receiver *daemon
}

// spinning is a program that keeps a processor busy until it is stopped.
var spinning = []string{"sh", "-c", "while :; do :; done"}

// enterGuests boots a virtual machine on each node.
func (l *Target) enterGuests(ctx context.Context) error {
	receiver, err := startDaemon(ctx, l.nodes, l.programs.ktsnd, daemonSetting{receiving: true, cpu: l.pinning.listener, spin: l.scheduling.spin})
	if err != nil {
		return err
	}
	l.guests = &guests{receiver: receiver}
	l.guests.Rig, err = guestrig.Open(ctx, l.guestParts, l.nodes,
		guestrig.Node{Namespace: l.nodes.NodeA, Side: l.wiring.A, Client: l.daemon.client, Control: l.daemon.control},
		guestrig.Node{Namespace: l.nodes.NodeB, Side: l.wiring.B, Client: receiver.client, Control: receiver.control})
	if err != nil {
		return err
	}
	l.describeGuests()
	return nil
}

// describeGuests says on each page what these machines are.
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
		for _, one := range programs {
			_ = one.Stop() // a machine that has ended says so to the run
		}
	}
	for range guestrig.Processors {
		one, err := g.A.Start(spinning...)
		if err != nil {
			release()
			return nil, err
		}
		programs = append(programs, one)
	}
	return release, nil
}

// interfaceOf is by which a path's messages leave a virtual machine, and by which they arrive.
func interfaceOf(path string) (from, to string) {
	switch path {
	case results.PathGuestVhost:
		return guestrig.Vhost, guestrig.Vhost
	case results.PathGuestReleased:
		return guestrig.Released, guestrig.Tap
	}
	return guestrig.Tap, guestrig.Tap
}
