// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/bench/process"
	"github.com/kubernetsn/kubernetsn/internal/bench/topology"
)

// endsWithin is how long ktsnd may take to end, whatever Open vSwitch does.
const endsWithin = 5 * time.Second

func interruptedWithin(t *testing.T, running *process.Process, most time.Duration) {
	t.Helper()
	begun := time.Now()
	interrupt(t, running)
	if took := time.Since(begun); took > most {
		t.Errorf("%s took %v to end", running.Name(), took)
	}
}

// stopAnswering stops ovs-vswitchd: its connections stay, and nobody reads them or answers until the test ends.
func (l *ovsLab) stopAnswering(t *testing.T) {
	t.Helper()
	if err := l.node.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.node.Signal(syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	})
}

// DPDK would ask Open vSwitch where it is in the queues, and wait for the answer for ever.
func TestKtsndEndsThoughOpenVSwitchDoesNotAnswer(t *testing.T) {
	lab := newOVSLab(t)
	daemon, client := lab.startOVSDaemon(t)
	lab.awaitConnected(t)
	talker := lab.startTalker(t, filepath.Join(lab.Dir, "talker.csv"), "--cycle", "20ms", "--lead", "40ms")
	served(t, client, 5)
	lab.stopAnswering(t)
	// Those that are handed over from now on stay in the queue.
	served(t, client, counters(t, client).Taken+20)
	interruptedWithin(t, daemon, endsWithin)
	if notFetched.FindString(daemon.Stderr()) == "" {
		t.Errorf("it does not say that frames were left but: %s", daemon.Stderr())
	}
	if _, err := os.Stat(lab.node.VhostSocket()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its socket is still there: %v", err)
	}
	interrupt(t, talker)
}

// connectSilently connects to a vhost-user socket as soon as it is there, and answers nothing.
func connectSilently(t *testing.T, path string) {
	t.Helper()
	ctx, done := t.Context(), make(chan struct{})
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			connection, err := net.Dial("unix", path)
			if err != nil {
				time.Sleep(time.Millisecond)
				continue
			}
			<-ctx.Done()
			_ = connection.Close()
		}
	}()
}

// DPDK would wait for the answers of whoever connected first, for ever, and no signal would be read.
func TestKtsndBeginsThoughOpenVSwitchDoesNotAnswer(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	vhost := filepath.Join(lab.dir, "vhost.sock")
	connectSilently(t, vhost)
	daemon := start(t, lab.NodeA, "ktsnd", exec.Command(program(t, "ktsnd"), "--uplink", "ovs", "--interface", topology.PhysicalInterface,
		"--control", lab.control, "--vhost-socket", vhost))
	awaitSaid(t, daemon, "ready: sending")
	interruptedWithin(t, daemon, endsWithin)
}
