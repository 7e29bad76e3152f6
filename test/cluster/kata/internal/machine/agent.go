// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/kubernetsn/kubernetsn/test/cluster/kata/internal/protocol"
)

// ErrEnded means that the machine has ended.
var ErrEnded = errors.New("the machine has ended")

// Agent is the client of a machine's agent. Calls may be concurrent.
type Agent struct {
	port net.Conn

	mu      sync.Mutex
	ended   bool
	number  int
	waiting map[int]chan protocol.Reply
	// processes are the running processes, by ID.
	processes map[string]*Process
}

// Process is a process of the machine, running or ended.
type Process struct {
	stdout, stderr io.Writer
	ended          chan int
}

// Ended receives the exit status, once. It is closed without one if the machine ends before.
func (p *Process) Ended() <-chan int { return p.ended }

func newAgent(port net.Conn) *Agent {
	a := &Agent{port: port, waiting: map[int]chan protocol.Reply{0: make(chan protocol.Reply, 1)}, processes: map[string]*Process{}}
	return a
}

// await waits until the agent answers.
func (a *Agent) await(ctx context.Context) error {
	there := a.waiting[0]
	go a.listen()
	_, err := receive(ctx, there)
	return err
}

// listen dispatches the agent's replies until the machine ends. It blocks while a process's output is not read.
func (a *Agent) listen() {
	defer a.end()
	for replies := json.NewDecoder(a.port); ; {
		var reply protocol.Reply
		if err := replies.Decode(&reply); err != nil {
			return
		}
		if reply.Process != "" {
			a.ofProcess(&reply)
			continue
		}
		a.mu.Lock()
		to := a.waiting[reply.Number]
		delete(a.waiting, reply.Number)
		a.mu.Unlock()
		if to != nil {
			to <- reply
		}
	}
}

func (a *Agent) ofProcess(reply *protocol.Reply) {
	a.mu.Lock()
	process := a.processes[reply.Process]
	if reply.Ended {
		delete(a.processes, reply.Process)
	}
	a.mu.Unlock()
	switch {
	case process == nil:
	case reply.Ended:
		process.ended <- reply.Status
		close(process.ended)
	case reply.Stream == protocol.Stdout:
		_, _ = process.stdout.Write(reply.Data) // to a reader that may have gone
	case reply.Stream == protocol.Stderr:
		_, _ = process.stderr.Write(reply.Data)
	}
}

func (a *Agent) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	a.port.Close()
	for _, to := range a.waiting {
		close(to)
	}
	for _, process := range a.processes {
		close(process.ended)
	}
	clear(a.waiting)
	clear(a.processes)
}

func receive(ctx context.Context, from <-chan protocol.Reply) (protocol.Reply, error) {
	select {
	case reply, there := <-from:
		if !there {
			return reply, ErrEnded
		}
		return reply, nil
	case <-ctx.Done():
		return protocol.Reply{}, fmt.Errorf("wait for the machine's agent: %w", ctx.Err())
	}
}

// ask sends a request and waits until the agent has fulfilled it.
func (a *Agent) ask(ctx context.Context, request protocol.Request) error {
	answered, err := a.send(&request)
	if err != nil {
		return err
	}
	reply, err := receive(ctx, answered)
	if err == nil && reply.Error != "" {
		err = fmt.Errorf("the machine's agent: %s", reply.Error)
	}
	return err
}

func (a *Agent) send(request *protocol.Request) (<-chan protocol.Reply, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return nil, ErrEnded
	}
	a.number++
	request.Number = a.number
	answered := make(chan protocol.Reply, 1)
	a.waiting[request.Number] = answered
	return answered, json.NewEncoder(a.port).Encode(request)
}

// SetUp sets a network card up.
func (a *Agent) SetUp(ctx context.Context, what *protocol.Interface) error {
	return a.ask(ctx, protocol.Request{Interface: what})
}

// Start starts a process, whose output goes to the writers.
func (a *Agent) Start(ctx context.Context, what *protocol.Process, stdout, stderr io.Writer) (*Process, error) {
	process := &Process{stdout: stdout, stderr: stderr, ended: make(chan int, 1)}
	a.mu.Lock()
	if a.ended {
		a.mu.Unlock()
		return nil, ErrEnded
	}
	a.processes[what.ID] = process // output may come before the reply
	a.mu.Unlock()
	if err := a.ask(ctx, protocol.Request{Start: what}); err != nil {
		a.mu.Lock()
		delete(a.processes, what.ID)
		a.mu.Unlock()
		return nil, err
	}
	return process, nil
}

// Signal sends a signal to a process, and to those that it has started.
func (a *Agent) Signal(ctx context.Context, process string, number int) error {
	return a.ask(ctx, protocol.Request{Signal: &protocol.Signal{Process: process, Number: number}})
}
