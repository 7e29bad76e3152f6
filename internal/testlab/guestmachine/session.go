// SPDX-License-Identifier: Apache-2.0

package guestmachine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab/guestclock"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
)

const (
	// bootPatience is for a machine whose processors are emulated, on a busy host.
	bootPatience = 3 * time.Minute
	// bootPoll is how often QEMU's socket is looked for, stopGrace how long QEMU may take to end.
	bootPoll  = 50 * time.Millisecond
	stopGrace = 5 * time.Second
	// endedGrace is how long after its last sign of life a machine that fails has ended for certain.
	endedGrace = 500 * time.Millisecond
	// exchanges of counters bound the guest's; each takes some microseconds.
	exchanges = 2000
)

// ErrEnded is said of a machine that is no longer there.
var ErrEnded = errors.New("the virtual machine has ended")

// Session is a virtual machine that runs until Close, and whose agent runs programs in it. Calls may be concurrent.
type Session struct {
	// memory is that of Page, which QEMU opens by the number of its descriptor.
	memory *os.File
	// Process is QEMU.
	Process *process.Process
	// Page is what the machine's clock says, Counter how its counter goes with this machine's.
	Page    *guestclock.Page
	Counter guestclock.Counter

	name    string
	log     string
	console bytes.Buffer // once QEMU has ended
	port    net.Conn

	mu      sync.Mutex
	asked   int
	waiting map[int]chan reply
	ended   error
}

// Open boots the machine somewhere and returns when its agent is there. name is what errors call it.
func (m *Machine) Open(ctx context.Context, where process.Starter, name string) (_ *Session, err error) {
	if !guestclock.Supported {
		return nil, errors.New("virtual machines with a known clock are of amd64, and this machine is not")
	}
	socket := filepath.Join(m.Out, "agent.sock")
	// Not a file of a disk: a relay of vhost-user, which gets all shared memory of the machine, takes files in memory only.
	fd, err := unix.MemfdCreate("ktsn-page", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make the shared page: %w", err)
	}
	page := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
	s := &Session{name: name, log: filepath.Join(m.Out, LogFile), waiting: map[int]chan reply{}, memory: os.NewFile(uintptr(fd), page)}
	if err := s.memory.Truncate(guestclock.PageBytes); err != nil {
		return nil, err
	}
	if s.Page, err = guestclock.Map(page); err != nil {
		return nil, err
	}
	initial, err := m.pack(ctx, Command{Dir: "/", Arguments: append([]string{m.First}, AgentArguments...)})
	if err != nil {
		return nil, fmt.Errorf("pack initial file system: %w", err)
	}
	qemu := m.qemu(initial, "-device", "virtio-serial", "-chardev", "socket,id=agent,server=on,wait=off,path="+socket,
		"-device", "virtserialport,chardev=agent,name="+agentPort,
		"-object", fmt.Sprintf("memory-backend-file,id=page,share=on,mem-path=%s,size=%d", page, guestclock.PageBytes),
		"-device", "ivshmem-plain,memdev=page")
	qemu.Stdout = &s.console
	if s.Process, err = process.Start(where, name, qemu); err != nil {
		return nil, err
	}
	if err := s.connect(ctx, socket); err != nil {
		return nil, errors.Join(s.explain(err), s.Close())
	}
	return s, nil
}

// connect waits for the agent, and for what its exchanges say of the counter.
func (s *Session) connect(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, bootPatience)
	defer cancel()
	for {
		var err error
		if s.port, err = net.Dial("unix", socket); err == nil {
			break
		}
		select {
		case <-s.Process.Done():
			return ErrEnded
		case <-ctx.Done():
			return fmt.Errorf("connect to the agent: %w (%w)", ctx.Err(), err)
		case <-time.After(bootPoll):
		}
	}
	there := make(chan reply, 1)
	s.waiting[0] = there
	go s.listen()
	if _, err := s.await(ctx, there); err != nil {
		return fmt.Errorf("wait until the machine has booted: %w", err)
	}
	return s.Exchange(ctx)
}

// listen distributes what the agent says until the machine ends.
func (s *Session) listen() {
	lines := bufio.NewScanner(s.port)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one reply
		if json.Unmarshal(lines.Bytes(), &one) != nil {
			continue // what the port had left of an earlier reader
		}
		s.mu.Lock()
		to := s.waiting[one.ID]
		if one.Ended || one.ID == 0 {
			delete(s.waiting, one.ID)
		}
		s.mu.Unlock()
		if to != nil {
			to <- one
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = ErrEnded
	for id, to := range s.waiting {
		delete(s.waiting, id)
		close(to)
	}
}

// await waits for one reply; false: the machine has ended.
func (s *Session) await(ctx context.Context, from <-chan reply) (reply, error) {
	select {
	case one, there := <-from:
		if !there {
			return one, ErrEnded
		}
		return one, nil
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
}

// mostLines of a program wait to be taken.
const mostLines = 4096

// ask sends a request whose replies come by the channel.
func (s *Session) ask(one request) (int, <-chan reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return 0, nil, s.ended
	}
	s.asked++
	one.ID = s.asked
	replies := make(chan reply, mostLines)
	s.waiting[one.ID] = replies
	return one.ID, replies, json.NewEncoder(s.port).Encode(&one)
}

// Exchange exchanges counters, and narrows what is known of the machine's.
func (s *Session) Exchange(ctx context.Context) error {
	_, replies, err := s.ask(request{Answer: exchanges})
	if err != nil {
		return err
	}
	all, errAsk := s.Page.Ask(exchanges, answerPatience)
	last, err := s.await(ctx, replies)
	if err := errors.Join(errAsk, err, last.failure()); err != nil {
		return fmt.Errorf("exchange counters with %s: %w", s.name, err)
	}
	for _, one := range all {
		s.Counter.Narrow(one)
	}
	if s.Counter.Width() < 0 {
		return fmt.Errorf("the counter of %s is not this machine's plus a constant: it differs by %d to %d", s.name, s.Counter.Most, s.Counter.Least)
	}
	return nil
}

// Step sets the machine's clock forward by a duration, or back.
func (s *Session) Step(ctx context.Context, by time.Duration) error {
	if by == 0 {
		return nil
	}
	_, replies, err := s.ask(request{Step: by.Nanoseconds()})
	if err != nil {
		return fmt.Errorf("set the clock of %s: %w", s.name, err)
	}
	last, err := s.await(ctx, replies)
	if err := errors.Join(err, last.failure()); err != nil {
		return fmt.Errorf("set the clock of %s: %w", s.name, err)
	}
	return nil
}

func (r *reply) failure() error {
	if r.Error == "" {
		return nil
	}
	return errors.New(r.Error)
}

// Program is one that runs in the machine.
type Program struct {
	session *Session
	name    string
	id      int
	replies <-chan reply
	said    []string
}

// Start starts a program.
func (s *Session) Start(arguments ...string) (*Program, error) {
	if len(arguments) == 0 {
		return nil, errors.New("the request asks for nothing")
	}
	id, replies, err := s.ask(request{Run: arguments})
	if err != nil {
		return nil, fmt.Errorf("start %s in %s: %w", arguments[0], s.name, err)
	}
	return &Program{session: s, name: filepath.Base(arguments[0]), id: id, replies: replies}, nil
}

// Run runs a program to its end and returns what it said.
func (s *Session) Run(ctx context.Context, arguments ...string) (string, error) {
	program, err := s.Start(arguments...)
	if err != nil {
		return "", err
	}
	return program.Wait(ctx)
}

// Await waits until the program says a line with such a beginning.
func (p *Program) Await(ctx context.Context, beginning string) error {
	for {
		one, err := p.next(ctx)
		if err != nil {
			return err
		}
		if one.Ended {
			return fmt.Errorf("%s in %s ended before it said %q: %s %s", p.name, p.session.name, beginning, one.Error, strings.Join(p.said, "\n"))
		}
		if strings.HasPrefix(one.Line, beginning) {
			return nil
		}
	}
}

// Wait waits for its end and returns what it said since Await.
func (p *Program) Wait(ctx context.Context) (string, error) {
	for {
		one, err := p.next(ctx)
		text := strings.Join(p.said, "\n")
		if err != nil {
			return text, errors.Join(err, p.Stop())
		}
		if !one.Ended {
			continue
		}
		if err := one.failure(); err != nil {
			return text, fmt.Errorf("%s in %s: %w: %s", p.name, p.session.name, err, text)
		}
		return text, nil
	}
}

func (p *Program) next(ctx context.Context) (reply, error) {
	one, err := p.session.await(ctx, p.replies)
	if err != nil {
		return one, fmt.Errorf("wait for %s in %s: %w", p.name, p.session.name, err)
	}
	if !one.Ended {
		p.said = append(p.said, one.Line)
	}
	return one, nil
}

// Stop asks it to end; Wait waits until it has.
func (p *Program) Stop() error {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	if p.session.ended != nil {
		return nil
	}
	return json.NewEncoder(p.session.port).Encode(&request{ID: p.id, Stop: true})
}

// explain adds what the console said to an error about a machine that has ended.
func (s *Session) explain(err error) error {
	select {
	case <-s.Process.Done():
		said, _ := os.ReadFile(s.log) // what there is
		return fmt.Errorf("%w: %w; its console says:\n%sand its agent:\n%s", err, s.Process.Ended(), s.console.String(), said)
	case <-time.After(endedGrace):
		return err
	}
}

// Close ends the machine.
func (s *Session) Close() error {
	if s.port != nil {
		s.port.Close()
	}
	return s.Process.Stop(stopGrace)
}
