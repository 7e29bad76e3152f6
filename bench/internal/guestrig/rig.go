// SPDX-License-Identifier: Apache-2.0

// Package guestrig runs a virtual machine on each node of a topology for a bench:
//
//	machine a                                         machine b
//	 tap       ktsn-guest, tap, ktsn-relay, ktsnd ──► tap
//	 vhost     ktsn-guest, ktsn-relay-vhost, ktsnd ─► vhost (ktsn-relay-vhost)
//	 released  mqprio and etf, tap, bridge ─────────► tap
//	 gated     taprio and etf, tap, bridge ─────────► tap
//
// Both machines boot once and run until Close. QEMU emulates their processors.
package guestrig

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestclock"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const (
	// Processors and memoryMiB are each machine's; several queues need two processors.
	Processors = 2
	memoryMiB  = 512
	stopGrace  = 10 * time.Second
	// relayUser is the unprivileged user of relays.
	relayUser     = 65533
	relayPatience = 10 * time.Second
	relayPoll     = 20 * time.Millisecond
)

// Names of the interfaces of machines.
const (
	Tap      = "tap"
	Vhost    = "vhost"
	Released = "released"
	Gated    = "gated"
)

// Interfaces are the possible interfaces of machines, by name.
type Interfaces struct{ A, B []string }

// Node is one node with its daemon.
type Node struct {
	Namespace *topology.Namespace
	Side      *cniruntime.Side
	// Client and Control reach its ktsnd.
	Client  *control.Client
	Control string
}

// Machine is a virtual machine on a node.
type Machine struct {
	*guestmachine.Session
	// Addresses are by the names of its interfaces.
	Addresses map[string]netip.Addr
	// Out is a folder of this machine that the virtual one mounts at guestmachine.OutDir.
	Out string

	interfaces []*attached
}

// Rig is both machines, and their connections.
type Rig struct {
	A, B *Machine

	parts *Parts
	nodes *topology.Topology
	// public is a folder that relays, which have no privileges, can enter.
	public string
	// closers are called by Close, the last first.
	closers []func() error
	relays  []*process.Process
}

// marked are the interfaces of machine a whose frames ktsn-guest marks.
func (r *Rig) marked() []string {
	var all []string
	for _, iface := range r.A.interfaces {
		if iface.name == Tap || iface.name == Vhost {
			all = append(all, iface.name)
		}
	}
	return all
}

// The addresses of the machines' interfaces.
var (
	addressesA = map[string]netip.Addr{Tap: netip.MustParseAddr("10.42.1.21"), Vhost: netip.MustParseAddr("10.42.1.22"),
		Released: netip.MustParseAddr("10.42.1.23"), Gated: netip.MustParseAddr("10.42.1.24")}
	addressesB = map[string]netip.Addr{Tap: netip.MustParseAddr("10.42.2.21"), Vhost: netip.MustParseAddr("10.42.2.22")}
)

// Open connects and boots both machines, or leaves nothing behind. Both have the interface Tap, by which ktsn-guest
// gets the host's time.
func Open(ctx context.Context, parts *Parts, nodes *topology.Topology, a, b Node, has Interfaces) (_ *Rig, err error) {
	if err := sweep(); err != nil {
		return nil, err
	}
	r := &Rig{parts: parts, nodes: nodes, A: &Machine{Addresses: addressesA}, B: &Machine{Addresses: addressesB}}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if err := r.publish(); err != nil {
		return nil, err
	}
	for _, setting := range []struct {
		machine *Machine
		node    *Node
		name    string
		names   []string
	}{{r.A, &a, "a", has.A}, {r.B, &b, "b", has.B}} {
		setting.machine.Out = filepath.Join(nodes.Dir, "machine-"+setting.name)
		if err := os.Mkdir(setting.machine.Out, 0o755); err != nil {
			return nil, err
		}
		for _, name := range setting.names {
			if err := r.attach(ctx, setting.machine, setting.node, setting.name, name); err != nil {
				return nil, fmt.Errorf("connect virtual machine %s by %s: %w", setting.name, name, err)
			}
		}
	}
	relay, err := r.start(a.Namespace, "ktsn node relay", "node", "relay", "--state-dir", a.Side.StateDir(),
		"--relay-binary", filepath.Join(r.public, "ktsn-relay"), "--relay-user", strconv.Itoa(relayUser))
	if err != nil {
		return nil, err
	}
	r.relays = append(r.relays, relay)
	if err := r.boot(ctx, &a, &b); err != nil {
		return nil, err
	}
	if err := r.setUp(ctx, &a); err != nil {
		return nil, err
	}
	return r, nil
}

// publish creates the folder with the relays' programs.
func (r *Rig) publish() error {
	r.public = r.nodes.Dir + "-public"
	if err := os.Mkdir(r.public, 0o755); err != nil {
		return err
	}
	r.closers = append(r.closers, func() error { return os.RemoveAll(r.public) })
	for _, name := range []string{"ktsn-relay", "ktsn-relay-vhost"} {
		content, err := os.ReadFile(r.parts.program(name))
		if err == nil {
			err = os.WriteFile(filepath.Join(r.public, name), content, 0o755)
		}
		if err != nil {
			return fmt.Errorf("copy %s to where its user may start it: %w", name, err)
		}
	}
	return nil
}

// boot boots both at once, because they wait for the host half of the time.
func (r *Rig) boot(ctx context.Context, a, b *Node) error {
	var both sync.WaitGroup
	var errs [2]error
	for i, side := range []struct {
		machine *Machine
		node    *Node
		name    string
	}{{r.A, a, "virtual machine a"}, {r.B, b, "virtual machine b"}} {
		both.Go(func() { errs[i] = r.bootOne(ctx, side.machine, side.node, side.name) })
	}
	both.Wait()
	for _, machine := range []*Machine{r.A, r.B} {
		if machine.Session != nil {
			r.closers = append(r.closers, machine.Close)
		}
	}
	return errors.Join(errs[:]...)
}

func (r *Rig) bootOne(ctx context.Context, machine *Machine, node *Node, name string) (err error) {
	devices := []string{"-object", fmt.Sprintf("memory-backend-memfd,id=mem,size=%dM,share=on", memoryMiB), "-numa", "node,memdev=mem",
		"-chardev", "socket,id=clock,server=on,wait=off,path=" + machine.clockSocket(), "-device", "virtserialport,chardev=clock,name=org.kubernetsn.clock"}
	for _, iface := range machine.interfaces {
		devices = append(devices, iface.devices...)
	}
	plan := guestmachine.Machine{Base: r.parts.Kernel, First: r.parts.program("ktsn-test-first"), Out: machine.Out, Processors: Processors,
		MemoryMiB: memoryMiB, Shown: []string{r.parts.Programs}, QEMU: guestmachine.QEMUOf(r.parts.QEMU), Devices: devices,
		Chipset: "pc,hpet=off", KernelOptions: clockOptions()}
	machine.Session, err = plan.Open(ctx, node.Namespace, name)
	return err
}

// clockOptions make the machine's clock follow its processor's counter at a fixed rate. The kernel would otherwise
// compare it with other clocks, mark it unstable when the emulation stalls, and lose time with the next one.
func clockOptions() []string {
	return []string{"clocksource=tsc", "tsc=reliable", fmt.Sprintf("tsc_early_khz=%.0f", guestclock.Hertz()/1e3)}
}

func (m *Machine) clockSocket() string { return filepath.Join(m.Out, "clock.sock") }

// RelayPIDs are those of the relays of machine a's node.
func (r *Rig) RelayPIDs() ([]int, error) {
	var all []int
	for _, supervisor := range r.relays {
		children, err := process.Children(supervisor.PID())
		if err != nil {
			return nil, err
		}
		all = append(all, children...)
	}
	return all, nil
}

// Close ends and removes everything.
func (r *Rig) Close() error {
	var err error
	for ; len(r.closers) > 0; r.closers = r.closers[:len(r.closers)-1] {
		err = errors.Join(err, r.closers[len(r.closers)-1]())
	}
	return err
}
