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
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
)

// previous is a program of the previous release, which scripts/previous.sh has built.
func previous(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(os.Getenv("KTSN_PREVIOUS"), name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v; run `make previous`", err)
	}
	return path
}

// libraries are those that applications may have.
var libraries = map[string]func(*testing.T) string{
	"with its libktsn.so":     theirs("libktsn.so"),
	"with the new libktsn.so": ours("libktsn.so"),
}

// replaceBy has another ktsnd take over from the running one.
func (l *lab) replaceBy(t *testing.T, before *process.Process, program string) (*process.Process, *control.Client) {
	t.Helper()
	after := start(t, l.NodeA, "ktsnd", exec.Command(program, append(l.daemonArguments(), "--take-over")...))
	if err := finish(t, before); err != nil {
		t.Fatalf("the ktsnd that was replaced: %v\nthe other says: %s", err, after.Stderr())
	}
	return after, connect(t, after, l.control)
}

// New sockets are asked for in the connection that there is: of another release, and older than the one that it began with.
func TestPreviousReleaseIsReplacedAndReplacesUnderLoad(t *testing.T) {
	for name, library := range libraries {
		t.Run(name, func(t *testing.T) {
			lab := newLab(t)
			lab.library = library(t)
			programs := []string{previous(t, "ktsnd"), program(t, "ktsnd")}
			daemon, client := lab.startDaemonBy(t, exec.Command(programs[0], lab.daemonArguments()...))
			running := lab.startFlow(t, "--lead", "5ms", "--cycle", "1ms")
			for n := range 6 {
				served(t, client, 200)
				daemon, client = lab.replaceBy(t, daemon, programs[(n+1)%2])
			}
			served(t, client, 200)
			var total sum
			total.add(running.end(t, client))
			running.checkNoneLost(t, total)
		})
	}
}

// The previous release does not know of instances: it hands over to one and ends, and takes over from one, which stands by until it
// is told to end.
func TestPreviousReleaseIsReplacedByAnInstanceAndComesBack(t *testing.T) {
	for name, library := range libraries {
		t.Run(name, func(t *testing.T) {
			lab := newLab(t)
			lab.library = library(t)
			daemon, client := lab.startDaemonBy(t, exec.Command(previous(t, "ktsnd"), lab.daemonArguments()...))
			running := lab.startFlow(t, "--lead", "5ms", "--cycle", "1ms")
			for n := range 3 {
				served(t, client, 200)
				instance := lab.startInstance(t, "instance-"+strconv.Itoa(n))
				instance.awaitState(t, control.StateServing)
				if err := finish(t, daemon); err != nil {
					t.Fatalf("the ktsnd that was replaced: %v", err)
				}
				served(t, connect(t, instance.Process, lab.control), 200)
				daemon = start(t, lab.NodeA, "ktsnd", exec.Command(previous(t, "ktsnd"), append(lab.daemonArguments(), "--take-over")...))
				instance.awaitState(t, control.StateStandingBy)
				client = connect(t, daemon, lab.control)
				served(t, client, 200)
				instance.told(t)
			}
			served(t, client, 200)
			var total sum
			total.add(running.end(t, client))
			running.checkNoneLost(t, total)
			if listener := listenerOf(t, lab.socket); listener != daemon.PID() {
				t.Errorf("process %d listens at the pod's socket, want the previous release's %d", listener, daemon.PID())
			}
		})
	}
}

// orders are those in which the releases can follow each other, each with either library.
var orders = map[string]struct{ library, first, second func(*testing.T) string }{
	"up, with the previous library":   {theirs("libktsn.so"), theirs("ktsnd"), ours("ktsnd")},
	"up, with the new library":        {ours("libktsn.so"), theirs("ktsnd"), ours("ktsnd")},
	"down, with the previous library": {theirs("libktsn.so"), ours("ktsnd"), theirs("ktsnd")},
	"down, with the new library":      {ours("libktsn.so"), ours("ktsnd"), theirs("ktsnd")},
}

// A connection outlives ktsnd; what it is asked for next is new to it.
func TestSocketsAreOpenedAcrossAReplacementByTheOtherRelease(t *testing.T) {
	for name, test := range orders {
		t.Run(name, func(t *testing.T) {
			lab := newLab(t)
			lab.library = test.library(t)
			daemon, client := lab.startDaemonBy(t, exec.Command(test.first(t), lab.daemonArguments()...))
			opening := startOpener(t, python(t), lab.PodA, lab.preloaded(t))
			for n, program := range []string{test.second(t), test.first(t), test.second(t)} {
				if said := opening.another(); said != "ok" {
					t.Fatalf("a socket after %d replacements: %s", n, said)
				}
				daemon, client = lab.replaceBy(t, daemon, program)
			}
			if said := opening.another(); said != "ok" {
				t.Errorf("the last socket: %s", said)
			}
			if status, err := client.Status(t.Context()); err != nil || status.Processes != 1 || status.Flows != 4 {
				t.Errorf("ktsnd has %+v, %v; want 1 process with 4 flows", status, err)
			}
		})
	}
}

// What waits in a ring is handed back to whichever release starts next.
func TestRingIsHandedBackToTheOtherRelease(t *testing.T) {
	for name, test := range orders {
		t.Run(name, func(t *testing.T) {
			lab := newLab(t)
			lab.library = test.library(t)
			daemon, client := lab.startDaemonBy(t, exec.Command(test.first(t), lab.daemonArguments()...))
			running := lab.startFlow(t, "--lead", "50ms", "--cycle", "1ms")
			served(t, client, 200)
			kill(t, daemon)
			time.Sleep(20 * time.Millisecond)
			_, client = lab.startDaemonBy(t, exec.Command(test.second(t), lab.daemonArguments()...))
			served(t, client, 200)
			var total sum
			total.add(running.end(t, client))
			running.checkConserved(t, total)
		})
	}
}

func theirs(name string) func(*testing.T) string {
	return func(t *testing.T) string { return previous(t, name) }
}

func ours(name string) func(*testing.T) string {
	return func(t *testing.T) string { return program(t, name) }
}
