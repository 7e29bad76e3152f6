// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/containerd/api/types/task"

	"github.com/kubernetsn/kubernetsn/test/cluster/kata/internal/machine"
	"github.com/kubernetsn/kubernetsn/test/cluster/kata/internal/protocol"
)

// killed is the exit status of a process whose machine was powered off, as after SIGKILL.
const killed = 137

// process is a container's process, one executed in it, or the sandbox itself.
type process struct {
	container, exec        string
	bundle, stdout, stderr string
	// what is the process to run, nil for the sandbox.
	what *protocol.Process

	started atomic.Bool
	once    sync.Once
	ended   chan struct{}
	// status and at are valid once it has ended.
	status int
	at     time.Time
}

// key identifies a process among those of its pod.
func key(container, exec string) string { return container + "/" + exec }

// start has the agent run the process.
func (p *process) start(ctx context.Context, agent *machine.Agent) error {
	stdout, err := openOutput(p.stdout)
	if err != nil {
		return err
	}
	stderr, err := openOutput(p.stderr)
	if err != nil {
		stdout.Close()
		return err
	}
	running, err := agent.Start(ctx, p.what, stdout, stderr)
	if err != nil {
		stdout.Close()
		stderr.Close()
		return err
	}
	p.started.Store(true)
	go func() {
		status, there := <-running.Ended()
		if !there {
			status = killed
		}
		stdout.Close()
		stderr.Close()
		p.end(status)
	}()
	return nil
}

// end records the exit status. Only the first call counts.
func (p *process) end(status int) {
	p.once.Do(func() {
		p.status, p.at = status, time.Now()
		close(p.ended)
	})
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (p *process) state() task.Status {
	switch {
	case p.hasEnded():
		return task.Status_STOPPED
	case p.started.Load():
		return task.Status_RUNNING
	}
	return task.Status_CREATED
}

// openOutput opens a pipe of containerd's, also if nothing reads it at the moment.
func openOutput(path string) (io.WriteCloser, error) {
	if path == "" {
		path = os.DevNull
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open where a container writes: %w", err)
	}
	return file, nil
}
