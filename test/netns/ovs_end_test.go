// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

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
	served(t, client, 20)
	interrupt(t, daemon)
	if notFetched.FindString(daemon.Stderr()) == "" {
		t.Errorf("it does not say that frames were left but: %s", daemon.Stderr())
	}
	if _, err := os.Stat(lab.node.VhostSocket()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its socket is still there: %v", err)
	}
	interrupt(t, talker)
}
