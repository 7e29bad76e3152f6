// SPDX-License-Identifier: Apache-2.0

package guestmachine

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// openSession opens a session with an agent that runs on this machine.
func openSession(t *testing.T) *Session {
	t.Helper()
	here, there := net.Pipe()
	a := &agent{replies: json.NewEncoder(there), running: map[int]*os.Process{}}
	s := &Session{name: "the machine", port: here, waiting: map[int]chan reply{}}
	ended := make(chan error, 1)
	go func() { ended <- a.serve(there) }()
	go s.listen()
	t.Cleanup(func() {
		here.Close()
		there.Close()
		if err := <-ended; err == nil {
			t.Error("an agent whose host has gone goes on")
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, left := range a.running {
			_ = syscall.Kill(-left.Pid, syscall.SIGKILL) // it may have just ended
		}
	})
	return s
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestSessionRunsProgramsConcurrently(t *testing.T) {
	s := openSession(t)
	waits, err := s.Start("sh", "-c", "echo ready; sleep 60")
	if err != nil {
		t.Fatal(err)
	}
	if err := waits.Await(patient(t), "rea"); err != nil {
		t.Fatal(err)
	}
	if output, err := s.Run(patient(t), "sh", "-c", "echo one; echo two >&2"); output != "one\ntwo" || err != nil {
		t.Errorf("got %q, %v", output, err)
	}
	if err := waits.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := waits.Wait(patient(t)); err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("a program that was stopped: %v", err)
	}
}

func TestSessionErrors(t *testing.T) {
	s := openSession(t)
	for name, arguments := range map[string][]string{
		"exit status 3: because": {"sh", "-c", "echo because; exit 3"},
		"no such file":           {"/nowhere/program"},
		"asks for nothing":       {},
	} {
		if _, err := s.Run(patient(t), arguments...); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", arguments, err)
		}
	}
	ends, err := s.Start("true")
	if err != nil {
		t.Fatal(err)
	}
	if err := ends.Await(patient(t), "never"); err == nil || !strings.Contains(err.Error(), "ended before it said") {
		t.Errorf("a program that does not say it: %v", err)
	}
}

func TestSessionReportsEndOfMachine(t *testing.T) {
	s := openSession(t)
	waits, err := s.Start("sleep", "60")
	if err != nil {
		t.Fatal(err)
	}
	s.port.Close()
	if _, err := waits.Wait(patient(t)); !errors.Is(err, ErrEnded) {
		t.Errorf("a program of it: %v", err)
	}
	if _, err := s.Run(patient(t), "true"); !errors.Is(err, ErrEnded) {
		t.Errorf("another one: %v", err)
	}
}
