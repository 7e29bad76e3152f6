// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// realtimeBudget is a cgroup's CPU budget for real-time threads.
type realtimeBudget struct {
	runtime, period time.Duration
}

// smallBudget is used up in a fifth of its period by a busy loop.
var smallBudget = realtimeBudget{20 * time.Millisecond, 100 * time.Millisecond}

const cpuHierarchy = "/sys/fs/cgroup/cpu"

// hasGroupBudgets reports whether the kernel gives each cgroup its own budget.
func hasGroupBudgets() bool {
	_, err := os.Stat(filepath.Join(cpuHierarchy, "cpu.rt_runtime_us"))
	return err == nil
}

// budgetGroup creates a cgroup with its own budget.
func budgetGroup(t *testing.T, budget realtimeBudget) string {
	t.Helper()
	group, err := os.MkdirTemp(cpuHierarchy, "ktsn-test-")
	if err != nil {
		t.Skipf("make a cgroup: %v", err)
	}
	t.Cleanup(func() {
		// Its last process may have just ended.
		testlab.Eventually(t, patience, 10*time.Millisecond, func() error { return os.Remove(group) })
	})
	err = giveBudget(group, budget)
	if errors.Is(err, syscall.EINVAL) {
		releaseAbandonedBudgets(t)
		err = giveBudget(group, budget)
	}
	if err != nil {
		t.Skipf("give the cgroup a budget: %v", err)
	}
	return group
}

func giveBudget(group string, budget realtimeBudget) error {
	return errors.Join(
		os.WriteFile(filepath.Join(group, "cpu.rt_period_us"), []byte(strconv.FormatInt(budget.period.Microseconds(), 10)), 0),
		os.WriteFile(filepath.Join(group, "cpu.rt_runtime_us"), []byte(strconv.FormatInt(budget.runtime.Microseconds(), 10)), 0))
}

// releaseAbandonedBudgets takes the budget from cgroups of killed tests: cgroups without processes that are not new.
func releaseAbandonedBudgets(t *testing.T) {
	t.Helper()
	const long = 5 * time.Minute
	clusters, err := filepath.Glob(filepath.Join(cpuHierarchy, "ktsnc-*"))
	must(t, err)
	for _, cluster := range clusters {
		if info, err := os.Stat(cluster); err != nil || time.Since(info.ModTime()) < long || hasProcesses(t, cluster) {
			continue
		}
		folders := foldersBelow(t, cluster)
		slices.Reverse(folders) // a cgroup cannot release the budget of its children
		for _, folder := range folders {
			if err := os.WriteFile(filepath.Join(folder, "cpu.rt_runtime_us"), []byte("0"), 0); err != nil {
				t.Logf("take the budget of %s: %v", folder, err)
			}
		}
	}
}

// foldersBelow lists a cgroup and its descendants, the topmost first.
func foldersBelow(t *testing.T, group string) (folders []string) {
	t.Helper()
	must(t, filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return err
	}))
	return folders
}

func hasProcesses(t *testing.T, group string) bool {
	t.Helper()
	return slices.ContainsFunc(foldersBelow(t, group), func(folder string) bool {
		text, err := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
		return err != nil || len(text) > 0
	})
}

// startDaemonIn starts ktsnd in a cgroup.
func (l *lab) startDaemonIn(t *testing.T, group string, options ...string) (*process.Process, *control.Client) {
	t.Helper()
	arguments := append([]string{"-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(group, "cgroup.procs"), program(t, "ktsnd")},
		append(l.daemonArguments(), options...)...)
	return l.startDaemonBy(t, exec.Command("/bin/sh", arguments...))
}

// openDiscard opens a socket in pod b that nobody reads: without it the kernel would reject the messages.
func (l *lab) openDiscard(t *testing.T) {
	t.Helper()
	listen(t, l.PodB, "udp4", netip.AddrPortFrom(topology.PodAddressB, listenPort))
}

// keepBusy sends a message each cycle from pod a, too often for an ordinary sleep, and returns the result.
func (l *lab) keepBusy(t *testing.T, client *control.Client, cycle, lasts time.Duration) *control.Status {
	t.Helper()
	l.openDiscard(t)
	count := int(lasts / cycle)
	talker := l.startTalker(t, os.DevNull, "--lead", "10ms", "--sockets", "20", "--cycle", strconv.FormatInt(cycle.Nanoseconds(), 10), "--count", strconv.Itoa(count))
	select {
	case <-talker.Done():
	case <-time.After(lasts + patience):
		t.Fatal("the talker does not end")
	}
	must(t, talker.Wait())
	return testlab.EventuallyValue(t, patience, 50*time.Millisecond, func() (*control.Status, error) {
		status := statusOf(t, client)
		if status.Counters.Sent == uint64(count) {
			return status, nil
		}
		return nil, fmt.Errorf("%d of %d messages left: %+v\nthe talker's log: %s", status.Counters.Sent, count, status.Counters, talker.Stderr())
	})
}

// checkNotStopped fails if the kernel throttled the loop, or if it had no reason to.
func checkNotStopped(t *testing.T, status *control.Status) {
	t.Helper()
	budget := &status.RealtimeBudget
	t.Logf("budget %+v, %d of %d messages late", *budget, status.Counters.Late(), status.Counters.Sent)
	if budget.Stops != 0 {
		t.Errorf("the kernel stopped the loop %d times, for %v", budget.Stops, time.Duration(budget.StoppedNs))
	}
	if budget.MostUsedNs < budget.RuntimeNs/2 {
		t.Errorf("%v of %v were used at most: the load provokes nothing", time.Duration(budget.MostUsedNs), time.Duration(budget.RuntimeNs))
	}
	if budget.MostUsedNs > budget.RuntimeNs {
		t.Errorf("%v were used, of %v", time.Duration(budget.MostUsedNs), time.Duration(budget.RuntimeNs))
	}
}

// checkMachinesBudget keeps ktsnd busy with the budget of the whole machine.
func (l *lab) checkMachinesBudget(t *testing.T, lasts time.Duration) {
	t.Helper()
	_, client := l.startDaemon(t, "--cpu", "0")
	status := l.keepBusy(t, client, 70*time.Microsecond, lasts)
	if status.RealtimeBudget.PeriodNs == 0 {
		t.Log("the kernel stops no real-time threads here")
		return
	}
	checkNotStopped(t, status)
}

func TestBusyLoopSurvivesRealtimeBudget(t *testing.T) {
	timing(t)
	lab := newLab(t)
	const lasts = 5 * time.Second
	if !hasGroupBudgets() {
		lab.checkMachinesBudget(t, lasts)
		return
	}
	group := budgetGroup(t, smallBudget)
	daemon, client := lab.startDaemonIn(t, group, "--cpu", "0")
	status := lab.keepBusy(t, client, 200*time.Microsecond, lasts)
	checkNotStopped(t, status)
	if want := filepath.Join(group, "cpu.rt_runtime_us"); status.RealtimeBudget.Source != want {
		t.Errorf("the budget is by %s, want %s", status.RealtimeBudget.Source, want)
	}
	if log := daemon.Stderr(); !strings.Contains(log, "stops real-time threads after 20000 of 100000 us") {
		t.Errorf("ktsnd's log:\n%s", log)
	}
}

// TestRealtimeAwaitsInterface checks that ktsn-realtime waits for the uplink, which another container creates.
func TestRealtimeAwaitsInterface(t *testing.T) {
	content(t)
	lab := newLab(t)
	begin := func(name string) (*process.Process, *bytes.Buffer) {
		command := exec.Command(program(t, "ktsn-realtime"), "--await", name, "--", "/bin/echo", "started")
		var output bytes.Buffer
		command.Stdout = &output
		return start(t, lab.NodeA, "ktsn-realtime", command), &output
	}
	t.Run("an existing interface", func(t *testing.T) {
		waiting, output := begin(topology.PhysicalInterface)
		if err := finish(t, waiting); err != nil || output.String() != "started\n" || strings.Contains(waiting.Stderr(), "waiting") {
			t.Errorf("it ended with %v and printed %q, %q", err, output, waiting.Stderr())
		}
	})
	t.Run("an interface that is created later", func(t *testing.T) {
		waiting, output := begin("late0")
		awaitLog(t, waiting, "waiting until interface late0 is up and has an IPv4 address")
		for _, step := range [][]string{{"link", "add", "late0", "type", "veth", "peer", "name", "late1"}, {"addr", "add", "192.0.2.77/32", "dev", "late0"}} {
			ip(t, lab.NodeA, step...)
			select {
			case <-waiting.Done():
				t.Fatalf("after %q it has ended: %s", step, waiting.Stderr())
			case <-time.After(300 * time.Millisecond):
			}
		}
		ip(t, lab.NodeA, "link", "set", "late0", "up")
		if err := finish(t, waiting); err != nil || output.String() != "started\n" || strings.Count(waiting.Stderr(), "waiting") != 1 {
			t.Errorf("it ended with %v and printed %q, %q", err, output, waiting.Stderr())
		}
	})
}
