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
	// bootTimeout allows for emulated processors on a busy host.
	bootTimeout = 3 * time.Minute
	// bootPoll is how often QEMU's socket is tried, stopGrace how long QEMU may take to end.
	bootPoll  = 50 * time.Millisecond
	stopGrace = 5 * time.Second
	// endedGrace is how long after its last output a failing machine has ended for certain.
	endedGrace = 500 * time.Millisecond
	// exchanges is the number of exchanges that determine the guest's counter; each takes some microseconds.
	exchanges = 2000
)

// ErrEnded is returned if the machine has ended.
var ErrEnded = errors.New("the virtual machine has ended")

// Session is a virtual machine that runs until Close, and whose agent runs programs in it. It is safe for concurrent
// use.
type Session struct {
	// memory is the memory of Page, which QEMU opens by the number of its descriptor.
	memory *os.File
	// Process is QEMU.
	Process *process.Process
	// Page has the samples of the machine's clock, Counter the relation of its counter to this machine's.
	Page    *guestclock.Page
	Counter guestclock.Counter

	name    string
	log     string
	console bytes.Buffer // complete once QEMU has ended
	port    net.Conn

	mu      sync.Mutex
	asked   int
	waiting map[int]chan reply
	ended   error
}

// Open boots the machine and returns when its agent answers. name is used in errors.
func (m *Machine) Open(ctx context.Context, where process.Starter, name string) (_ *Session, err error) {
	if !guestclock.Supported {
		return nil, errors.New("virtual machines with a known clock are of amd64, and this machine is not")
	}
	socket := filepath.Join(m.Out, "agent.sock")
	// Not a file on a disk: a vhost-user relay, which gets all shared memory of the machine, accepts files in memory
	// only.
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

// connect waits for the agent, and exchanges counters.
func (s *Session) connect(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
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

// listen distributes the agent's replies until the machine ends.
func (s *Session) listen() {
	lines := bufio.NewScanner(s.port)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var message reply
		if json.Unmarshal(lines.Bytes(), &message) != nil {
			continue // left in the port from an earlier reader
		}
		s.mu.Lock()
		to := s.waiting[message.ID]
		if message.Ended || message.ID == 0 {
			delete(s.waiting, message.ID)
		}
		s.mu.Unlock()
		if to != nil {
			to <- message
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

// await waits for one reply. It fails if the machine ends.
func (s *Session) await(ctx context.Context, from <-chan reply) (reply, error) {
	select {
	case message, there := <-from:
		if !there {
			return message, ErrEnded
		}
		return message, nil
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
}

// maxPendingLines limits the lines of a program that wait to be read.
const maxPendingLines = 4096

// ask sends a request. The channel gets its replies.
func (s *Session) ask(message request) (int, <-chan reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return 0, nil, s.ended
	}
	s.asked++
	message.ID = s.asked
	replies := make(chan reply, maxPendingLines)
	s.waiting[message.ID] = replies
	return message.ID, replies, json.NewEncoder(s.port).Encode(&message)
}

// Exchange exchanges counters, and narrows the range of the machine's.
func (s *Session) Exchange(ctx context.Context) error {
	_, replies, err := s.ask(request{Answer: exchanges})
	if err != nil {
		return err
	}
	all, errAsk := s.Page.Ask(exchanges, answerTimeout)
	last, err := s.await(ctx, replies)
	if err := errors.Join(errAsk, err, last.failure()); err != nil {
		return fmt.Errorf("exchange counters with %s: %w", s.name, err)
	}
	for _, exchange := range all {
		s.Counter.Narrow(exchange)
	}
	if s.Counter.Width() < 0 {
		return fmt.Errorf("the counter of %s is not this machine's plus a constant: it differs by %d to %d", s.name, s.Counter.Most, s.Counter.Least)
	}
	return nil
}

// Step adds a duration, which can be negative, to the machine's clock.
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

// Program is a program that runs in the machine.
type Program struct {
	session *Session
	name    string
	id      int
	replies <-chan reply
	lines   []string
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

// Run runs a program to its end and returns its output.
func (s *Session) Run(ctx context.Context, arguments ...string) (string, error) {
	program, err := s.Start(arguments...)
	if err != nil {
		return "", err
	}
	return program.Wait(ctx)
}

// Await waits until the program prints a line with a prefix.
func (p *Program) Await(ctx context.Context, beginning string) error {
	for {
		message, err := p.next(ctx)
		if err != nil {
			return err
		}
		if message.Ended {
			return fmt.Errorf("%s in %s ended before it said %q: %s %s", p.name, p.session.name, beginning, message.Error, strings.Join(p.lines, "\n"))
		}
		if strings.HasPrefix(message.Line, beginning) {
			return nil
		}
	}
}

// Wait waits for the program's end and returns its output since Await.
func (p *Program) Wait(ctx context.Context) (string, error) {
	for {
		message, err := p.next(ctx)
		text := strings.Join(p.lines, "\n")
		if err != nil {
			return text, errors.Join(err, p.Stop())
		}
		if !message.Ended {
			continue
		}
		if err := message.failure(); err != nil {
			return text, fmt.Errorf("%s in %s: %w: %s", p.name, p.session.name, err, text)
		}
		return text, nil
	}
}

func (p *Program) next(ctx context.Context) (reply, error) {
	message, err := p.session.await(ctx, p.replies)
	if err != nil {
		return message, fmt.Errorf("wait for %s in %s: %w", p.name, p.session.name, err)
	}
	if !message.Ended {
		p.lines = append(p.lines, message.Line)
	}
	return message, nil
}

// Stop asks the program to end. Wait waits until it has.
func (p *Program) Stop() error {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	if p.session.ended != nil {
		return nil
	}
	return json.NewEncoder(p.session.port).Encode(&request{ID: p.id, Stop: true})
}

// explain adds the console's output to an error about a machine that has ended.
func (s *Session) explain(err error) error {
	select {
	case <-s.Process.Done():
		log, _ := os.ReadFile(s.log) // as much as exists
		return fmt.Errorf("%w: %w; its console says:\n%sand its agent:\n%s", err, s.Process.Ended(), s.console.String(), log)
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
