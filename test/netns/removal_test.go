// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/bench/process"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/testenv"
)

// removalLimit is within what time ktsnd has given back everything of a pod that was removed.
const removalLimit = 5 * time.Second

// leaving are the modes that leave something to ktsnd whose close waits for something that ktsnd closes later.
var leaving = []struct{ mode, achieves string }{
	{"immortal", "left"}, {"immortal2", "rings"}, {"fuse", "left"}, {"ends", "connections"}, {"refill", "sent"}, {"faulted", "held"},
}

func threadsOf(t *testing.T, running *process.Process) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", running.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// awaitGone waits until ktsnd has no more descriptors and threads than before, and no memory of rings.
func awaitGone(t *testing.T, daemon *process.Process, client *control.Client, descriptors, threads int) {
	t.Helper()
	began := time.Now()
	for {
		nowDescriptors, nowThreads := len(keptOpen(t, daemon.PID())), threadsOf(t, daemon)
		status := statusOf(t, client)
		if nowDescriptors <= descriptors && nowThreads <= threads && status.RingMemoryBytes+status.RingMemoryRemovedBytes == 0 {
			t.Logf("gone after %v", time.Since(began).Round(time.Millisecond))
			return
		}
		if time.Since(began) > removalLimit {
			t.Fatalf("%v after the removal ktsnd has %d descriptors, %d threads and rings of %d and %d bytes; before the pod came %d and %d",
				removalLimit, nowDescriptors, nowThreads, status.RingMemoryBytes, status.RingMemoryRemovedBytes, descriptors, threads)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// needsOf skips a mode for which the machine lacks something.
func needsOf(t *testing.T, mode string) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); mode == "fuse" && err != nil {
		testenv.Missing(t, "no /dev/fuse; load the module fuse")
	}
}

// abortIfStuck ends the file system of a program whose test failed: a ktsnd that waits for it cannot be killed.
func (a *attack) abortIfStuck(t *testing.T) {
	t.Helper()
	_, connection, found := strings.Cut(a.stdout.String(), "connection ")
	if !t.Failed() || !found {
		return
	}
	folder := t.TempDir()
	if err := unix.Mount("fusectl", folder, "fusectl", 0, ""); err != nil {
		t.Errorf("abort connection %s: %v", connection, err)
		return
	}
	defer func() { _ = unix.Unmount(folder, 0) }()
	if err := os.WriteFile(filepath.Join(folder, strings.Fields(connection)[0], "abort"), []byte("1"), 0); err != nil {
		t.Error(err)
	}
}

// A pod that is removed takes all with it that ktsnd has of it, whatever it has passed, and disturbs nobody.
func TestRemovedPodLeavesNothing(t *testing.T) {
	for _, test := range leaving {
		t.Run(test.mode, func(t *testing.T) {
			t.Parallel()
			needsOf(t, test.mode)
			lab := newLab(t)
			daemon, client := lab.startDaemon(t)
			lab.goodTraffic(t, 10, func() {})
			idle(t, client)
			descriptors, threads := len(keptOpen(t, daemon.PID())), threadsOf(t, daemon)
			enemy := lab.addHostile(t, client)
			var running *attack
			removed := make(chan error, 1)
			replies := lab.askControl(t)
			lab.goodTraffic(t, 1000, func() {
				length := 300 * time.Millisecond
				if test.mode == "refill" {
					length = time.Second
				}
				running = enemy.start(t, test.mode, length)
				t.Cleanup(func() { running.abortIfStuck(t) })
				go func() {
					time.Sleep(300 * time.Millisecond)
					if test.mode != "refill" {
						<-running.Done()
					}
					remover, err := control.Dial(t.Context(), lab.control)
					if err == nil {
						err = enemy.remove(t.Context(), remover)
						remover.Close()
					}
					removed <- err
				}()
			})
			if err := <-removed; err != nil {
				t.Fatal(err)
			}
			if said := running.achieved(t); said[test.achieves] == 0 {
				t.Errorf("the hostile pod achieved nothing: %v", said)
			}
			slowest := slices.Max(replies.stop())
			t.Logf("slowest reply of the control socket %v", slowest)
			if slowest > time.Second {
				t.Errorf("the control socket took %v to answer", slowest)
			}
			awaitGone(t, daemon, client, descriptors, threads)
			checkBooks(t, settled(t, client))
		})
	}
}

// Four pods of which each leaves as many rings as it may have are no reason to refuse another pod one.
func TestRemovedPodsStarveNobody(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	enemy := lab.addHostile(t, client)
	idle(t, client)
	descriptors, threads := len(keptOpen(t, daemon.PID())), threadsOf(t, daemon)
	for range 4 {
		if said := enemy.start(t, "immortal2", 500*time.Millisecond).achieved(t); said["rings"] < 100 {
			t.Errorf("the hostile pod left %d rings", said["rings"])
		}
		if err := errors.Join(enemy.remove(t.Context(), client), enemy.attach(t.Context(), client)); err != nil {
			t.Fatal(err)
		}
		if said := startMode(t, lab.PodA, lab.socket, "ask", 50*time.Millisecond).achieved(t); said["asked"] == 0 {
			t.Errorf("another pod: %v", said)
		}
	}
	lab.goodTraffic(t, 50, func() {})
	idle(t, client)
	awaitGone(t, daemon, client, descriptors, threads)
}

// Where pods have used up what there is for them, ktsnd still answers on its control socket.
func TestControlSocketHasDescriptorsInReserve(t *testing.T) {
	t.Parallel()
	const limit = 1000
	lab := newLab(t)
	daemon, client := lab.startDaemon(t, "--pod-processes", "4096", "--slots", "64")
	if err := unix.Prlimit(daemon.PID(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil {
		t.Fatal(err)
	}
	enemy := lab.addHostile(t, client)
	idle(t, client)
	descriptors, threads := len(keptOpen(t, daemon.PID())), threadsOf(t, daemon)
	var running *attack
	lab.goodTraffic(t, 1000, func() { running = enemy.start(t, "many", 1500*time.Millisecond) })
	// Another one while the pod has them.
	many := enemy.start(t, "many", 2*time.Second)
	awaitSaid(t, many.Process, "begun")
	time.Sleep(time.Second)
	if open := len(descriptorsOf(t, daemon.PID())); open < limit*3/4 {
		t.Errorf("ktsnd has %d descriptors, too few for the test to mean anything", open)
	}
	command := exec.Command(program(t, "ktsn"), "status", "--control", lab.control)
	began := time.Now()
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("ktsn status: %v: %s", err, output)
	}
	if took := time.Since(began); took > removalLimit {
		t.Errorf("the control socket took %v to answer", took)
	}
	peers, err := control.Dial(t.Context(), lab.control)
	if err != nil {
		t.Fatal(err)
	}
	peers.Close()
	running.achieved(t)
	many.achieved(t)
	idle(t, client)
	awaitGone(t, daemon, client, descriptors, threads)
	lab.goodTraffic(t, 50, func() {})
}

// A pod that is just being removed keeps no ktsnd from being replaced, and the next one owes it nothing.
func TestHandOverWhileAPodIsRemoved(t *testing.T) {
	for _, mode := range []string{"immortal", "immortal2", "fuse"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			needsOf(t, mode)
			lab := newLab(t)
			daemon, client := lab.startDaemon(t)
			enemy := lab.addHostile(t, client)
			running := enemy.start(t, mode, 300*time.Millisecond)
			t.Cleanup(func() { running.abortIfStuck(t) })
			running.achieved(t)
			if err := enemy.remove(t.Context(), client); err != nil {
				t.Fatal(err)
			}
			var successor *process.Process
			lab.goodTraffic(t, 500, func() { successor, client = lab.takeOver(t, daemon) })
			idle(t, client)
			awaitGone(t, successor, client, len(keptOpen(t, successor.PID())), threadsOf(t, successor))
			lab.goodTraffic(t, 50, func() {})
		})
	}
}

// A ktsnd that is killed while it removes a pod is gone.
func TestKtsndThatIsKilledWhileAPodIsRemovedEnds(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	enemy := lab.addHostile(t, client)
	enemy.start(t, "immortal", 300*time.Millisecond).achieved(t)
	if err := enemy.remove(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	kill(t, daemon)
	if took := time.Since(began); took > removalLimit {
		t.Errorf("it took %v", took)
	}
	_, _ = lab.startDaemon(t)
	lab.goodTraffic(t, 50, func() {})
}
