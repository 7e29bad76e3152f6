// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"context"
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

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
)

// removalLimit is the time in which ktsnd must release everything of a removed pod.
const removalLimit = 5 * time.Second

// leaving are the modes that leave an object in ktsnd whose close waits for another one that ktsnd closes later. The
// pod is removed when the program has ended; with refill, which runs longer, after half a second from the program's
// first connection. A pod that is removed at a fixed time may still wait for an answer on a busy machine.
var leaving = []struct {
	mode, achieves       string
	length, removedAfter time.Duration
}{
	{"immortal", "left", 300 * time.Millisecond, patience},
	{"immortal2", "rings", 300 * time.Millisecond, patience},
	{"fuse", "left", 300 * time.Millisecond, patience},
	{"fuse-ring", "left", 300 * time.Millisecond, patience},
	{"ends", "connections", 300 * time.Millisecond, patience},
	{"faulted", "held", 300 * time.Millisecond, patience},
	{"refill", "sent", 1500 * time.Millisecond, 500 * time.Millisecond},
}

// resources are the resources of a ktsnd except the doorbells that it keeps for the next rings.
type resources struct{ descriptors, threads int }

func possessionsOf(running *process.Process) resources {
	folder := fmt.Sprintf("/proc/%d", running.PID())
	threads, _ := os.ReadDir(filepath.Join(folder, "task"))
	descriptors, _ := os.ReadDir(filepath.Join(folder, "fd"))
	now := resources{0, len(threads)}
	for _, entry := range descriptors {
		if kind, err := os.Readlink(filepath.Join(folder, "fd", entry.Name())); err == nil && kind != "anon_inode:[eventpoll]" {
			now.descriptors++
		}
	}
	return now
}

// awaitRemoved waits until ktsnd has no more resources than before and no ring of a removed pod, and returns how long
// that took.
func awaitRemoved(ctx context.Context, daemon *process.Process, client *control.Client, before resources) (time.Duration, error) {
	began := time.Now()
	for ; ; time.Sleep(5 * time.Millisecond) {
		now := possessionsOf(daemon)
		status, err := client.Status(ctx)
		if err != nil {
			return 0, err
		}
		if now.descriptors <= before.descriptors && now.threads <= before.threads && status.RingMemoryRemovedBytes == 0 {
			return time.Since(began), nil
		}
		if time.Since(began) > removalLimit {
			return 0, fmt.Errorf("%v after the removal ktsnd has %+v, and rings of %d bytes of it; before there was %+v", removalLimit, now,
				status.RingMemoryRemovedBytes, before)
		}
	}
}

func awaitRemoval(t *testing.T, daemon *process.Process, client *control.Client, before resources) {
	t.Helper()
	if _, err := awaitRemoved(t.Context(), daemon, client, before); err != nil {
		t.Fatal(err)
	}
}

// needsOf skips a mode that the machine does not support.
func needsOf(t *testing.T, mode string) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); strings.HasPrefix(mode, "fuse") && err != nil {
		testlab.Missing(t, "no /dev/fuse; load the module fuse")
	}
}

// abortIfStuck ends the file system of a program after a failed test: a ktsnd that waits for it cannot be killed.
func (a *attack) abortIfStuck(t *testing.T) {
	t.Helper()
	_, connection, ok := strings.Cut(a.stdout.String(), "connection ")
	if !t.Failed() || !ok {
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

// removalResult is the duration and the error of a pod's removal.
type removalResult struct {
	took time.Duration
	err  error
}

// removeAfter removes the hostile pod when its program has ended, or after a time, and waits until everything is
// released.
func (h *hostile) removeAfter(ctx context.Context, client *control.Client, running *attack, after time.Duration, daemon *process.Process,
	before resources) removalResult {
	select {
	case <-running.Done():
	case <-time.After(after):
	}
	if err := h.remove(ctx, client); err != nil {
		return removalResult{0, err}
	}
	took, err := awaitRemoved(ctx, daemon, client, before)
	return removalResult{took, err}
}

// TestRemovedPodLeavesNothing checks that ktsnd releases everything of a removed pod, whatever descriptors it passed,
// and that no other pod is disturbed.
func TestRemovedPodLeavesNothing(t *testing.T) {
	timing(t)
	for _, test := range leaving {
		t.Run(test.mode, func(t *testing.T) {
			t.Parallel()
			needsOf(t, test.mode)
			lab := newLab(t)
			daemon, client := lab.startDaemon(t)
			remover, err := control.Dial(t.Context(), lab.control)
			must(t, err)
			t.Cleanup(func() { _ = remover.Close() })
			var enemy *hostile
			var running *attack
			ended := make(chan removalResult, 1)
			replies := lab.askControl(t)
			lab.goodTraffic(t, 1500, func() {
				before := possessionsOf(daemon)
				enemy = lab.addHostile(t, client)
				running = enemy.start(t, test.mode, test.length)
				t.Cleanup(func() { running.abortIfStuck(t) })
				go func() {
					ended <- enemy.removeAfter(t.Context(), remover, running, test.removedAfter, daemon, before)
				}()
			})
			result := <-ended
			if result.err != nil {
				t.Fatal(result.err)
			}
			if results := running.results(t); results[test.achieves] == 0 {
				t.Errorf("the hostile pod achieved nothing: %v", results)
			}
			slowest := slices.Max(replies.stop())
			t.Logf("%s removed in %v; slowest reply of the control socket %v", test.mode, result.took.Round(time.Millisecond), slowest.Round(time.Microsecond))
			if slowest > time.Second {
				t.Errorf("the control socket took %v to answer", slowest)
			}
			checkBooks(t, awaitSettled(t, client))
		})
	}
}

// TestSocketFolderWatchersDelayNobody adds watchers to the folder of a pod's socket: each makes changes of the folder
// slower.
func TestSocketFolderWatchersDelayNobody(t *testing.T) {
	timing(t)
	t.Parallel()
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	enemy := lab.addHostile(t, client)
	must(t, enemy.remove(t.Context(), client))
	folder := filepath.Join(lab.dir, hostileIdentity)
	must(t, os.Mkdir(folder, 0o755))
	enemy.socket = filepath.Join(folder, "app.sock")
	must(t, enemy.attach(t.Context(), client))
	running := enemy.start(t, "folder", 5*time.Second)
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		if !strings.Contains(running.stdout.String(), "watchers") {
			return errors.New("the pod does not watch its folder")
		}
		return nil
	})
	replies := lab.askControl(t)
	lab.goodTraffic(t, 1000, func() {
		for range 10 {
			must(t, errors.Join(enemy.remove(t.Context(), client), enemy.attach(t.Context(), client)))
		}
	})
	slowest := slices.Max(replies.stop())
	t.Logf("%s; slowest reply of the control socket %v", running.stdout, slowest)
	if slowest > time.Second {
		t.Errorf("the control socket took %v to answer", slowest)
	}
	if results := running.results(t); results["watchers"] < 1000 {
		t.Errorf("the pod has %v watchers", results)
	}
}

// TestRemovedPodsStarveNobody removes four pods with the maximum of rings each: another pod still gets a ring.
func TestRemovedPodsStarveNobody(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t, "--ring-memory", "64", "--pod-memory", "32")
	enemy := lab.addHostile(t, client)
	awaitIdle(t, client)
	before := possessionsOf(daemon)
	for range 4 {
		if results := enemy.start(t, "immortal2", 500*time.Millisecond).results(t); results["rings"] < 30 {
			t.Errorf("the hostile pod left %d rings", results["rings"])
		}
		must(t, errors.Join(enemy.remove(t.Context(), client), enemy.attach(t.Context(), client)))
		if results := startAsking(t, lab.PodA, lab.socket, 50*time.Millisecond).results(t); results["asked"] == 0 {
			t.Errorf("another pod: %v", results)
		}
	}
	lab.goodTraffic(t, 50, func() {})
	awaitIdle(t, client)
	awaitRemoval(t, daemon, client, before)
}

// TestControlSocketHasDescriptorsInReserve checks that ktsnd answers on its control socket after pods have used up
// their descriptors.
func TestControlSocketHasDescriptorsInReserve(t *testing.T) {
	content(t)
	const limit = 1000
	lab := newLab(t)
	daemon, client := lab.startDaemon(t, "--pod-processes", "4096", "--slots", "64")
	must(t, unix.Prlimit(daemon.PID(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}, nil))
	enemy := lab.addHostile(t, client)
	awaitIdle(t, client)
	before := possessionsOf(daemon)
	var running *attack
	lab.goodTraffic(t, 1000, func() { running = enemy.start(t, "many", 1500*time.Millisecond) })
	// Remove another pod meanwhile.
	many := enemy.start(t, "many", 2*time.Second)
	awaitLog(t, many.Process, "begun")
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
	must(t, err)
	peers.Close()
	running.results(t)
	many.results(t)
	awaitIdle(t, client)
	awaitRemoval(t, daemon, client, before)
	lab.goodTraffic(t, 50, func() {})
}

// TestHandOverDuringPodRemoval checks that a removal in progress does not block a hand-over or burden the successor.
func TestHandOverDuringPodRemoval(t *testing.T) {
	timing(t)
	for _, mode := range []string{"immortal", "immortal2", "fuse", "fuse-ring"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			needsOf(t, mode)
			lab := newLab(t)
			daemon, client := lab.startDaemon(t)
			lab.goodTraffic(t, 10, func() {})
			awaitIdle(t, client)
			before := possessionsOf(daemon)
			enemy := lab.addHostile(t, client)
			running := enemy.start(t, mode, 300*time.Millisecond)
			t.Cleanup(func() { running.abortIfStuck(t) })
			running.results(t)
			must(t, enemy.remove(t.Context(), client))
			var successor *process.Process
			lab.goodTraffic(t, 500, func() { successor, client = lab.takeOver(t, daemon) })
			awaitIdle(t, client)
			awaitRemoval(t, successor, client, before)
			lab.goodTraffic(t, 50, func() {})
		})
	}
}

// TestKilledKtsndEndsDuringPodRemoval checks that a ktsnd that is killed while it removes a pod ends.
func TestKilledKtsndEndsDuringPodRemoval(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	enemy := lab.addHostile(t, client)
	enemy.start(t, "immortal", 300*time.Millisecond).results(t)
	must(t, enemy.remove(t.Context(), client))
	began := time.Now()
	kill(t, daemon)
	if took := time.Since(began); took > removalLimit {
		t.Errorf("it took %v", took)
	}
	_, _ = lab.startDaemon(t)
	lab.goodTraffic(t, 50, func() {})
}
