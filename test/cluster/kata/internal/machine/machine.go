// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/kubernetsn/kubernetsn/test/cluster/kata/internal/network"
)

const (
	// bootPatience allows for emulated processors on a busy node; kubelet waits as long.
	bootPatience = 110 * time.Second
	bootPoll     = 20 * time.Millisecond
)

// Machine is a virtual machine, running or ended.
type Machine struct {
	// Agent is the client of the machine's agent.
	Agent *Agent
	// PID is QEMU's PID.
	PID int

	kill  context.CancelFunc
	ended chan struct{}
}

// Options has the parts of a pod's machine.
type Options struct {
	QEMU
	// Dir is the machine's own folder; the machine sees the content of Shared.
	Dir, Shared string
	// Netns has the taps of its cards.
	Netns string
	Cards []network.Card
}

// Start boots a machine and returns when its agent answers.
func Start(ctx context.Context, options *Options) (*Machine, error) {
	running, kill := context.WithCancel(context.Background())
	m := &Machine{kill: kill, ended: make(chan struct{})}
	pid := make(chan int, 1)
	failed := make(chan error, 1)
	var programs sync.WaitGroup
	programs.Go(func() {
		failed <- run(running, options.command(), pid)
		kill()
	})
	if len(options.ClockCommand) > 0 {
		clock := append(slices.Clone(options.ClockCommand[1:]), options.path(clockSocket))
		programs.Go(func() { _ = run(running, exec.Command(options.ClockCommand[0], clock...), nil) })
	}
	go func() {
		programs.Wait()
		close(m.ended)
	}()
	ctx, cancel := context.WithTimeout(ctx, bootPatience)
	defer cancel()
	err := m.connect(ctx, options, failed)
	if err == nil {
		m.PID = <-pid
		return m, nil
	}
	m.Stop()
	console, _ := os.ReadFile(options.path(console)) // what there is
	return nil, fmt.Errorf("boot the machine: %w; its console: %s", err, console)
}

// run runs a program until it ends or ctx does. The kernel kills it if this process is killed.
func run(ctx context.Context, command *exec.Cmd, pid chan<- int) error {
	// The kernel sends the death signal when the thread that started the program ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return err
	}
	if pid != nil {
		pid <- command.Process.Pid
	}
	stop := context.AfterFunc(ctx, func() { _ = command.Process.Kill() }) // it may have just ended
	defer stop()
	return command.Wait()
}

func (m *Machine) connect(ctx context.Context, options *Options, failed <-chan error) error {
	var port net.Conn
	for {
		var err error
		if port, err = net.Dial("unix", options.path(agentSocket)); err == nil {
			break
		}
		select {
		case err := <-failed:
			return fmt.Errorf("QEMU has ended: %w", err)
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(bootPoll):
		}
	}
	m.Agent = newAgent(port)
	return m.Agent.await(ctx)
}

// Ended is closed when the machine has ended.
func (m *Machine) Ended() <-chan struct{} { return m.ended }

// Stop powers the machine off, and waits until it has ended.
func (m *Machine) Stop() {
	m.kill()
	<-m.ended
}

func (o *Options) path(name string) string { return filepath.Join(o.Dir, name) }
