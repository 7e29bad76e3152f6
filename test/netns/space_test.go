// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// An application that only waits for space, in whatever way, hands the ring to the successor of a killed ktsnd by itself.
func TestBlockedSenderSurvivesKtsnd(t *testing.T) {
	timing(t)
	python := python(t)
	for _, way := range []string{"poll", "select", "epoll", "epoll-edge"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			lab := newLab(t)
			daemon, _ := lab.startDaemon(t)
			lab.listenForTexts(t) // so that nobody answers that the port is closed
			command := exec.Command(python, "testdata/space.py", topology.PodAddressB.String(), strconv.Itoa(listenPort), way)
			command.Env = lab.preloaded(t)
			running := startDialogue(t, lab.PodA, "python3", command)
			if !running.stdout.Scan() || running.stdout.Text() != "waiting" {
				t.Fatalf("it said %q; %s", running.stdout.Text(), running.Stderr())
			}
			if err := syscall.Kill(daemon.PID(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-daemon.Done()
			lab.startDaemon(t)
			if err := finish(t, running.Process); err != nil {
				t.Errorf("it was not woken: %v; %s", err, running.Stderr())
			}
		})
	}
}

// Where libktsn finds no descriptor for its own, epoll still says that the socket is writable.
func TestEpollReportsWritableWithoutSpareDescriptors(t *testing.T) {
	content(t)
	python := python(t)
	lab := newLab(t)
	lab.startDaemon(t)
	lab.listenForTexts(t)
	for name, numbers := range map[string][]string{
		"a low limit":                          {"64", "8"},
		"one left, which is not enough":        {"64", "1"},
		"none left":                            {"64", "0"},
		"none left below a limit that is high": {"1024", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			arguments := append([]string{"testdata/few_descriptors.py", topology.PodAddressB.String(),
				strconv.Itoa(listenPort)}, numbers...)
			command := exec.Command(python, arguments...)
			command.Env = lab.preloaded(t)
			if err := finish(t, start(t, lab.PodA, "python3", command)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPollIgnoresDescriptorClosedElsewhere(t *testing.T) {
	content(t)
	python := python(t)
	lab := newLab(t)
	lab.startDaemon(t)
	lab.listenForTexts(t)
	command := exec.Command(python, "testdata/own_closed.py", topology.PodAddressB.String(), strconv.Itoa(listenPort))
	command.Env = lab.preloaded(t)
	if err := finish(t, start(t, lab.PodA, "python3", command)); err != nil {
		t.Error(err)
	}
}
