// SPDX-License-Identifier: Apache-2.0

// Package netnstestbed runs experiments over the pod networks of package podnetworks, in network namespaces of this
// machine.
package netnstestbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/procfs"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/testbed"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/testlab/podnetworks"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
)

const stopGrace = 10 * time.Second

// Testbed is a testbed.Testbed that creates its networks on demand, and again for a different MTU of the link or for
// more pods. It is not safe for concurrent use.
type Testbed struct {
	paths    []string
	programs string
	routed   bool
	networks *podnetworks.Networks
	wanted   podnetworks.Wanted
}

// Open creates nothing yet. programs is the folder of built programs for paths tsn and link.
func Open(profile *engine.Profile, programs string) (*Testbed, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("network namespaces are made by root only; try it with sudo")
	}
	if slices.Contains(profile.Paths, podnetworks.TSN) || slices.Contains(profile.Paths, podnetworks.Link) {
		if err := podnetworks.CheckPrograms(programs); err != nil {
			return nil, err
		}
	}
	return &Testbed{paths: slices.Clone(profile.Paths), programs: programs}, nil
}

// Prepare does nothing: Ends creates what a case needs.
func (l *Testbed) Prepare(context.Context, engine.Setting) error { return nil }

// Perform is for cases of experiments only.
func (l *Testbed) Perform(context.Context, engine.Run) (*engine.Outcome, error) {
	return nil, errors.New("there are no messages between these networks, only cases of experiments")
}

// Environment describes the testbed.
func (l *Testbed) Environment() engine.Environment {
	return engine.Environment{SenderCPU: traffic.NotPinned, ListenerCPU: traffic.NotPinned, Programs: map[string]string{}, Warnings: []string{},
		NotMeasured: []results.Gap{{What: "a network card and a switch", Why: "the link is a veth pair, which has no speed of its own: " +
			"throughput is what the processors can do"}}}
}

// Host is this machine.
func (l *Testbed) Host() (results.Host, error) { return results.DescribeHost(time.Now()) }

// Close removes everything.
func (l *Testbed) Close(ctx context.Context) error {
	if l.networks == nil {
		return nil
	}
	err := l.networks.Close(context.WithoutCancel(ctx))
	l.networks = nil
	return err
}

// Route makes further ends belong to nodes with a router between, or without.
func (l *Testbed) Route(routed bool) { l.routed = routed }

// Networks are the networks that Ends created last.
func (l *Testbed) Networks() *podnetworks.Networks { return l.networks }

// Ends creates the networks, if others exist.
func (l *Testbed) Ends(ctx context.Context, network string, linkMTU, far int) (testbed.End, []testbed.End, error) {
	if linkMTU == 0 {
		linkMTU = podnetworks.MinMTU
	}
	if l.networks == nil || l.wanted.LinkMTU != linkMTU || l.wanted.Routed != l.routed || l.wanted.Pods < far {
		if err := l.Close(ctx); err != nil {
			return nil, nil, err
		}
		var err error
		l.wanted = podnetworks.Wanted{Networks: l.paths, LinkMTU: linkMTU, Routed: l.routed, Pods: far, Programs: l.programs}
		l.networks, err = podnetworks.Create(ctx, l.wanted)
		if err != nil {
			l.networks = nil
			return nil, nil, err
		}
	}
	var all []testbed.End
	for _, end := range l.networks.Far(network, far) {
		all = append(all, &placed{end, l.programs})
	}
	return &placed{l.networks.Near(network), l.programs}, all, nil
}

// Watch counts the processor time of both ktsnd, of the machine, and of its kernel's packet processing.
func (l *Testbed) Watch(context.Context) (func() (map[string]float64, error), error) {
	begin := time.Now()
	machine, err := results.ReadCPUTimes()
	if err != nil {
		return nil, err
	}
	daemons := l.networks.Daemons()
	before := map[string]time.Duration{}
	for name, daemon := range daemons {
		if before[name], err = process.CPUTime(daemon.PID()); err != nil {
			return nil, err
		}
	}
	return func() (map[string]float64, error) {
		elapsed := time.Since(begin)
		now, err := results.ReadCPUTimes()
		if err != nil {
			return nil, err
		}
		used := map[string]float64{testbed.MachineCores: float64(now.Busy-machine.Busy) / float64(elapsed),
			testbed.PacketCores: float64(now.SoftIRQ-machine.SoftIRQ) / float64(elapsed), testbed.Stolen: float64(now.Stolen - machine.Stolen)}
		for name, daemon := range daemons {
			select {
			case <-daemon.Done():
				return nil, daemon.Ended()
			default:
			}
			after, err := process.CPUTime(daemon.PID())
			if err != nil {
				return nil, err
			}
			used[name+testbed.Cores] = float64(after-before[name]) / float64(elapsed)
		}
		return used, nil
	}, nil
}

// placed is an end for programs.
type placed struct {
	end *podnetworks.End
	// programs is the folder of this project's programs.
	programs string
}

// find searches a program among this project's, and then on the path.
func (p *placed) find(name string) (string, error) {
	absolute, err := filepath.Abs(filepath.Join(p.programs, name))
	if err != nil {
		return "", err
	}
	if path, err := exec.LookPath(absolute); err == nil {
		return path, nil
	}
	return exec.LookPath(name)
}

func (p *placed) Address() netip.Addr { return p.end.Address }

func (p *placed) MTU() int { return p.end.MTU }

// Start starts a program in the end's namespace.
func (p *placed) Start(_ context.Context, command *testbed.Command) (testbed.Program, error) {
	path, err := p.find(command.Program)
	if err != nil {
		return nil, testbed.Missing(command)
	}
	r := &running{}
	c := exec.Command(path, command.Arguments...)
	c.Env = slices.Concat(os.Environ(), p.end.Environment, command.Environment)
	c.Stdout = &r.stdout
	if r.process, err = process.Start(p.end.Namespace(), command.Name, c); err != nil {
		return nil, err
	}
	go r.watchMemory()
	return r, nil
}

// running is a program in a namespace; its output is read after it has ended.
type running struct {
	process *process.Process
	stdout  bytes.Buffer
	memory  atomic.Int64
}

func (r *running) Wait(ctx context.Context) (string, error) {
	select {
	case <-ctx.Done():
		output, err := r.Stop()
		return output, errors.Join(fmt.Errorf("wait for %s: %w", r.process.Name(), ctx.Err()), err)
	case <-r.process.Done():
		return r.stdout.String() + r.process.Stderr(), r.process.Wait()
	}
}

func (r *running) Stop() (string, error) {
	r.readMemory()
	err := r.process.Stop(stopGrace)
	return r.stdout.String() + r.process.Stderr(), err
}

// memoryEvery is the interval of memory samples: a program that has ended has none.
const memoryEvery = 500 * time.Millisecond

func (r *running) watchMemory() {
	for {
		select {
		case <-r.process.Done():
			return
		case <-time.After(memoryEvery):
			r.readMemory()
		}
	}
}

// readMemory reads the program's peak memory since its start; wait4's value would include this program's own.
func (r *running) readMemory() {
	program, err := procfs.NewProc(r.process.PID())
	if err != nil {
		return // it has just ended
	}
	if status, err := program.NewStatus(); err == nil && status.VmHWM > 0 {
		r.memory.Store(int64(status.VmHWM))
	}
}

// MemoryBytes is its peak memory.
func (r *running) MemoryBytes() (float64, bool) {
	bytes := r.memory.Load()
	return float64(bytes), bytes > 0
}
