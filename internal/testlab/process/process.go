// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Starter starts a program somewhere, for instance in a network namespace.
type Starter interface {
	Start(*exec.Cmd) error
}

// Process is a started program. It is safe for concurrent use.
type Process struct {
	command *exec.Cmd
	name    string
	stderr  tail
	// done is closed once the program has ended; err is valid then.
	done chan struct{}
	err  error
	// begin and end are when it was started and had ended.
	begin, end time.Time
}

// Start starts a program and keeps its standard error. name is used in errors.
func Start(where Starter, name string, command *exec.Cmd) (*Process, error) {
	p := &Process{command: command, name: name, done: make(chan struct{})}
	command.Stderr = &p.stderr
	// A grandchild that keeps the pipe open must not block Wait.
	command.WaitDelay = time.Second
	// Before the start: the process may be interrupted between the start and the reading of the clock.
	p.begin = time.Now()
	if err := where.Start(command); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		p.err = p.explain(command.Wait())
		p.end = time.Now()
	}()
	return p, nil
}

// explain adds the program's last output to an error.
func (p *Process) explain(err error) error {
	if err == nil {
		return nil
	}
	output := strings.Join(p.Said(), "\n")
	if output == "" {
		return fmt.Errorf("%s ended with %w and said nothing", p.name, err)
	}
	return fmt.Errorf("%s ended with %w: %s", p.name, err, output)
}

// Name is the program's name in errors.
func (p *Process) Name() string { return p.name }

// PID is the program's process ID, valid until it has ended.
func (p *Process) PID() int { return p.command.Process.Pid }

// Done is closed once the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end and returns nil for exit status 0.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Used waits for the end and returns the program's processor time.
func (p *Process) Used() time.Duration {
	<-p.done
	return p.command.ProcessState.UserTime() + p.command.ProcessState.SystemTime()
}

// Lifetime waits for the end and returns how long the program ran.
func (p *Process) Lifetime() time.Duration {
	<-p.done
	return p.end.Sub(p.begin)
}

// Ended waits for a program that must not end: exit status 0 is an error as well.
func (p *Process) Ended() error {
	if err := p.Wait(); err != nil {
		return err
	}
	return fmt.Errorf("%s ended by itself: %s", p.name, strings.Join(p.Said(), "\n"))
}

// Stderr returns the last part of the program's standard error.
func (p *Process) Stderr() string { return p.stderr.String() }

// Said returns the lines of Stderr, without the journal level that daemons put before a line, such as "<4>".
func (p *Process) Said() []string {
	var lines []string
	for line := range strings.Lines(p.stderr.String()) {
		line = strings.TrimSpace(line)
		if len(line) > 3 && line[0] == '<' && line[2] == '>' {
			line = line[3:]
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// Stop asks the program to end, and kills it after grace. A kill is an error; a program that had ended before, or ends
// by the signal, is not.
func (p *Process) Stop(grace time.Duration) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	_ = p.command.Process.Signal(syscall.SIGTERM) // fails only if it has just ended
	select {
	case <-p.done:
		return nil
	case <-time.After(grace):
	}
	_ = p.command.Process.Kill()
	<-p.done
	return fmt.Errorf("%s did not end within %v of SIGTERM and was killed", p.name, grace)
}
