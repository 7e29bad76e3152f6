// SPDX-License-Identifier: Apache-2.0

//go:build previous

package netns_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// previous returns the path of a program of the previous release, as built by scripts/previous.sh.
func previous(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(os.Getenv("KTSN_PREVIOUS"), name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v; run `make previous`", err)
	}
	return path
}

// libraries lists the libktsn.so that an application may have.
var libraries = map[string]func(*testing.T) string{
	"with its libktsn.so":     previousProgram("libktsn.so"),
	"with the new libktsn.so": currentProgram("libktsn.so"),
}

// TestPreviousReleaseUnderLoad replaces either release by the other under load. New sockets use the existing connection, which may
// have begun with the other release.
func TestPreviousReleaseUnderLoad(t *testing.T) {
	for name, library := range libraries {
		t.Run(name, func(t *testing.T) {
			lab := newLab(t)
			lab.library = library(t)
			programs := []string{previous(t, "ktsnd"), program(t, "ktsnd")}
			daemon, client := lab.startDaemonBy(t, exec.Command(programs[0], lab.daemonArguments()...))
			running := lab.startFlow(t, "--lead", "5ms", "--cycle", "1ms")
			for n := range 6 {
				awaitTaken(t, client, 200)
				daemon, client = lab.takeOverBy(t, daemon, programs[(n+1)%2])
			}
			awaitTaken(t, client, 200)
			var total sum
			total.add(running.end(t, client))
			running.checkNoneLost(t, total)
		})
	}
}

// TestPreviousReleaseAndInstance replaces a ktsnd of the previous release, which is no instance, by an instance, and back. The ktsnd
// ends after its hand-over; the instance stands by.
func TestPreviousReleaseAndInstance(t *testing.T) {
	for name, library := range libraries {
		t.Run(name, func(t *testing.T) {
			lab := newLab(t)
			lab.library = library(t)
			daemon, client := lab.startDaemonBy(t, exec.Command(previous(t, "ktsnd"), lab.daemonArguments()...))
			running := lab.startFlow(t, "--lead", "5ms", "--cycle", "1ms")
			for n := range 3 {
				awaitTaken(t, client, 200)
				instance := lab.startInstance(t, "instance-"+strconv.Itoa(n))
				instance.awaitState(t, control.StateServing)
				if err := finish(t, daemon); err != nil {
					t.Fatalf("the ktsnd that was replaced: %v", err)
				}
				awaitTaken(t, connect(t, instance.Process, lab.control), 200)
				daemon = start(t, lab.NodeA, "ktsnd", exec.Command(previous(t, "ktsnd"), append(lab.daemonArguments(), "--take-over")...))
				instance.awaitState(t, control.StateStandingBy)
				client = connect(t, daemon, lab.control)
				awaitTaken(t, client, 200)
				instance.terminate(t)
			}
			awaitTaken(t, client, 200)
			var total sum
			total.add(running.end(t, client))
			running.checkNoneLost(t, total)
			if listener := listenerOf(t, lab.socket); listener != daemon.PID() {
				t.Errorf("process %d listens at the pod's socket, want the previous release's %d", listener, daemon.PID())
			}
		})
	}
}

// orders lists the orders in which the releases can follow each other, each with either library.
var orders = map[string]struct{ library, first, second func(*testing.T) string }{
	"up, with the previous library":   {previousProgram("libktsn.so"), previousProgram("ktsnd"), currentProgram("ktsnd")},
	"up, with the new library":        {currentProgram("libktsn.so"), previousProgram("ktsnd"), currentProgram("ktsnd")},
	"down, with the previous library": {previousProgram("libktsn.so"), currentProgram("ktsnd"), previousProgram("ktsnd")},
	"down, with the new library":      {currentProgram("libktsn.so"), currentProgram("ktsnd"), previousProgram("ktsnd")},
}

// TestOtherReleaseOpensSockets opens sockets over a connection that began with the other release.
func TestOtherReleaseOpensSockets(t *testing.T) {
	for name, test := range orders {
		t.Run(name, func(t *testing.T) {
			lab := newLab(t)
			lab.library = test.library(t)
			daemon, client := lab.startDaemonBy(t, exec.Command(test.first(t), lab.daemonArguments()...))
			opening := startDialogue(t, lab.PodA, "python3", lab.script(t, "limits.py"))
			for n, program := range []string{test.second(t), test.first(t), test.second(t)} {
				if answer := opening.ask(t, "another"); answer != "ok" {
					t.Fatalf("a socket after %d replacements: %s", n, answer)
				}
				daemon, client = lab.takeOverBy(t, daemon, program)
			}
			if answer := opening.ask(t, "another"); answer != "ok" {
				t.Errorf("the last socket: %s", answer)
			}
			if status, err := client.Status(t.Context()); err != nil || status.Processes != 1 || status.Flows != 4 {
				t.Errorf("ktsnd has %+v, %v; want 1 process with 4 flows", status, err)
			}
		})
	}
}

// TestOtherReleaseGetsRing kills ktsnd: messages in the ring are handed back to the other release, which starts next.
func TestOtherReleaseGetsRing(t *testing.T) {
	for name, test := range orders {
		t.Run(name, func(t *testing.T) {
			lab := newLab(t)
			lab.library = test.library(t)
			daemon, client := lab.startDaemonBy(t, exec.Command(test.first(t), lab.daemonArguments()...))
			running := lab.startFlow(t, "--lead", "50ms", "--cycle", "1ms")
			awaitTaken(t, client, 200)
			kill(t, daemon)
			time.Sleep(20 * time.Millisecond)
			_, client = lab.startDaemonBy(t, exec.Command(test.second(t), lab.daemonArguments()...))
			awaitTaken(t, client, 200)
			var total sum
			total.add(running.end(t, client))
			running.checkConserved(t, total)
		})
	}
}

func previousProgram(name string) func(*testing.T) string {
	return func(t *testing.T) string { return previous(t, name) }
}

func currentProgram(name string) func(*testing.T) string {
	return func(t *testing.T) string { return program(t, name) }
}
