// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// endsWithin is how long ktsnd may take to end, whatever Open vSwitch does.
const endsWithin = 5 * time.Second

// answerTimeout is how long ktsnd waits for an answer of Open vSwitch while it starts.
const answerTimeout = 2 * time.Second

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
func TestKtsndEndsWithStalledOpenVSwitch(t *testing.T) {
	timing(t)
	lab := newOVSLab(t)
	daemon, client := lab.startOVSDaemon(t)
	lab.awaitConnected(t)
	talker := lab.startTalker(t, filepath.Join(lab.Dir, "talker.csv"), "--cycle", "20ms", "--lead", "40ms")
	awaitTaken(t, client, 5)
	lab.stopAnswering(t)
	// Those that are handed over from now on stay in the queue.
	awaitTaken(t, client, counters(t, client).Taken+20)
	interruptedWithin(t, daemon, endsWithin)
	if notFetched.FindString(daemon.Stderr()) == "" {
		t.Errorf("it does not say that frames were left but: %s", daemon.Stderr())
	}
	if _, err := os.Stat(lab.node.VhostSocket()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its socket is still there: %v", err)
	}
	interrupt(t, talker)
}

// connectSilently connects to a vhost-user socket as soon as it is there, and answers nothing. It connects `times` times.
func connectSilently(t *testing.T, path string, times int) {
	t.Helper()
	ctx, done := t.Context(), make(chan struct{})
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		for range times {
			connection := dialUntil(ctx, path)
			if connection == nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
			_, _ = io.Copy(io.Discard, connection) // until ktsnd ends it
			stop()
			_ = connection.Close()
			time.Sleep(20 * time.Millisecond) // not to the socket that ktsnd is about to remove
		}
	}()
}

// dialUntil returns nil when ctx is done.
func dialUntil(ctx context.Context, path string) net.Conn {
	for ctx.Err() == nil {
		if connection, err := net.Dial("unix", path); err == nil {
			return connection
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// startSilenced starts a ktsnd to whose vhost-user socket a client connects that answers nothing.
func startSilenced(t *testing.T, times int) *process.Process {
	t.Helper()
	lab := newLab(t)
	vhost := filepath.Join(lab.dir, "vhost.sock")
	connectSilently(t, vhost, times)
	return start(t, lab.NodeA, "ktsnd", exec.Command(program(t, "ktsnd"), "--uplink", "ovs", "--interface", topology.PhysicalInterface,
		"--control", lab.control, "--vhost-socket", vhost))
}

// A silent client is not the first where ktsnd's own connection is quicker by chance: then it is tried again.
const silentTries = 3

// DPDK would wait for the answers of whoever connected first, for ever, and no signal would be read.
func TestKtsndStartsWithStalledOpenVSwitch(t *testing.T) {
	content(t)
	var took time.Duration
	for range silentTries {
		began := time.Now()
		daemon := startSilenced(t, 1)
		awaitLog(t, daemon, "ready: sending")
		took = time.Since(began)
		interruptedWithin(t, daemon, endsWithin)
		if took >= answerTimeout {
			return
		}
	}
	t.Errorf("ktsnd waited only %v for an answer", took)
}

func TestKtsndFailsWithoutOpenVSwitchAnswer(t *testing.T) {
	timing(t)
	t.Parallel()
	for range silentTries {
		began := time.Now()
		daemon := startSilenced(t, math.MaxInt)
		for !strings.Contains(daemon.Stderr(), "ready: sending") {
			select {
			case <-daemon.Done():
				checkUnanswered(t, daemon, time.Since(began))
				return
			case <-time.After(10 * time.Millisecond):
			}
			if time.Since(began) > patience {
				t.Fatalf("ktsnd neither starts nor ends but says: %s", daemon.Stderr())
			}
		}
		interruptedWithin(t, daemon, endsWithin)
	}
	t.Error("ktsnd started each time")
}

func checkUnanswered(t *testing.T, daemon *process.Process, took time.Duration) {
	t.Helper()
	const attempts = 3
	var exit *exec.ExitError
	if err := daemon.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("ktsnd ends with %v, want status 1", err)
	}
	if took < attempts*answerTimeout {
		t.Errorf("ktsnd ends after %v, want %d attempts of %v each", took, attempts, answerTimeout)
	}
	if !strings.Contains(daemon.Stderr(), "does not answer") {
		t.Errorf("ktsnd says %s", daemon.Stderr())
	}
}
