// SPDX-License-Identifier: Apache-2.0

package realtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// machine is a made-up /proc/self and a hierarchy of cgroups.
type machine struct {
	proc, root string
}

// newMachine makes a process in a cgroup. mounted is the part of the hierarchy that can be seen.
func newMachine(t *testing.T, own, mounted string) machine {
	t.Helper()
	m := machine{proc: t.TempDir(), root: t.TempDir()}
	m.write(t, m.proc, "cgroup", "3:cpuset:/\n2:cpu,cpuacct:"+own+"\n0::/\n")
	m.write(t, m.proc, "mountinfo", fmt.Sprintf("30 24 0:26 / /elsewhere rw - cgroup cgroup rw,cpuset\n"+
		"31 24 0:27 %s %s rw,relatime shared:1 - cgroup cgroup rw,cpu,cpuacct\n", mounted, m.root))
	return m
}

func (m machine) write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// cgroup makes one with a budget.
func (m machine) cgroup(t *testing.T, name string, budget int) string {
	t.Helper()
	dir := filepath.Join(m.root, name)
	m.write(t, dir, runtimeFile, fmt.Sprintf("%d\n", budget))
	m.write(t, dir, periodFile, "1000000\n")
	return dir
}

func (m machine) budget(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, runtimeFile))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func TestEachLevelGetsAtLeastTheShareFromTheTop(t *testing.T) {
	m := newMachine(t, "/kubepods/pod1/app", "/")
	top := m.cgroup(t, "kubepods", 300000)
	pod := m.cgroup(t, "kubepods/pod1", 0)
	app := m.cgroup(t, "kubepods/pod1/app", -1)
	levels, err := Levels(m.proc)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{top, pod, app}; fmt.Sprint(levels) != fmt.Sprint(want) {
		t.Fatalf("got %v, want %v", levels, want)
	}
	if err := Raise(t.Context(), levels, 0.1); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{top: "300000", pod: "100000", app: "-1"} {
		if got := m.budget(t, dir); got != want {
			t.Errorf("%s has %s, want %s", dir, got, want)
		}
	}
}

// The kernel's own arithmetic: a parent with a share that only one of its children can have.
func TestALevelHasWhatItsChildrenHaveTogether(t *testing.T) {
	m := newMachine(t, "/kubepods/pod1", "/")
	top := m.cgroup(t, "kubepods", 100000)
	burstable := m.cgroup(t, "kubepods/burstable", 100000)
	pod := m.cgroup(t, "kubepods/pod1", 0)
	if err := Raise(t.Context(), []string{top, pod}, 0.1); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{top: "200000", burstable: "100000", pod: "100000"} {
		if got := m.budget(t, dir); got != want {
			t.Errorf("%s has %s, want %s", dir, got, want)
		}
	}
}

// dividedCgroup makes one in the kernel's own hierarchy, which gives real-time budget, with those that are made below it. It is none
// where the kernel gives cgroups no budget; there it is seen that nothing is to be given.
func dividedCgroup(t *testing.T) (parent string, divided bool) {
	t.Helper()
	root, err := hierarchy("/proc/self/mountinfo", "/")
	if err == nil {
		_, err = os.Stat(filepath.Join(root, runtimeFile))
	}
	if err != nil {
		levels, err := Levels("/proc/self")
		if errors.Is(err, ErrHidden) {
			t.Skip(err)
		}
		if err != nil || len(levels) > 0 {
			t.Errorf("the kernel divides no budget, and shares are to be given to %v, %v", levels, err)
		}
		return "", false
	}
	if parent, err = os.MkdirTemp(root, "ktsn-test-"); err != nil {
		t.Skipf("needs root: %v", err)
	}
	t.Cleanup(func() {
		var all []string
		_ = filepath.WalkDir(parent, func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(all) {
			if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		}
	})
	return parent, true
}

// below makes cgroups below another.
func below(t *testing.T, parent string, names ...string) (made []string) {
	t.Helper()
	for _, name := range names {
		made = append(made, filepath.Join(parent, name))
		if err := os.Mkdir(made[len(made)-1], 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return made
}

func TestAShareThatIsTakenIsWaitedFor(t *testing.T) {
	parent, divided := dividedCgroup(t)
	if !divided {
		return
	}
	both := below(t, parent, "before", "after")
	before, after := both[0], both[1]
	const share = 0.01
	if err := Raise(t.Context(), []string{parent, before}, share); err != nil {
		t.Skipf("the machine's real-time budget is used up: %v", err)
	}

	short, cancel := context.WithTimeout(t.Context(), 2*poll)
	defer cancel()
	if err := Raise(short, []string{after}, share); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), after) {
		t.Fatalf("with the share taken: got %v", err)
	}
	freed := time.AfterFunc(4*poll, func() {
		if err := os.Remove(before); err != nil {
			t.Error(err)
		}
	})
	defer freed.Stop()
	if err := Raise(t.Context(), []string{after}, share); err != nil {
		t.Errorf("after the share was free: %v", err)
	}
}

// A pod that becomes Guaranteed is in another group of cgroups than before, which keeps the share of its predecessor.
func TestTheShareOfAGroupThatNobodyCanUseIsTakenBack(t *testing.T) {
	parent, divided := dividedCgroup(t)
	if !divided {
		return
	}
	groups := below(t, parent, "burstable", "pod")
	pods := below(t, groups[0], "old", "other")
	const share = 0.01
	if err := Raise(t.Context(), []string{parent, groups[0], pods[0]}, share); err != nil {
		t.Skipf("the machine's real-time budget is used up: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 2*poll)
	defer cancel()
	if err := Raise(short, []string{groups[1]}, share); !errors.Is(err, syscall.EINVAL) {
		t.Fatalf("while its pod has the share: got %v", err)
	}
	if err := os.Remove(pods[0]); err != nil {
		t.Fatal(err)
	}
	if err := Raise(t.Context(), []string{groups[1]}, share); err != nil {
		t.Error(err)
	}
	if has, _, err := budget(groups[0]); err != nil || has != 0 {
		t.Errorf("the group has %v, %v", has, err)
	}
}

func TestThereIsNothingToDo(t *testing.T) {
	t.Run("in the root cgroup", func(t *testing.T) {
		m := newMachine(t, "/", "/")
		if levels, err := Levels(m.proc); err != nil || len(levels) > 0 {
			t.Errorf("got %v, %v", levels, err)
		}
	})
	t.Run("where the kernel does not divide the budget", func(t *testing.T) {
		m := newMachine(t, "/app", "/")
		m.write(t, filepath.Join(m.root, "app"), "cpu.shares", "1024\n")
		if levels, err := Levels(m.proc); err != nil || len(levels) > 0 {
			t.Errorf("got %v, %v", levels, err)
		}
	})
	t.Run("with cgroups of version 2", func(t *testing.T) {
		m := newMachine(t, "/app", "/")
		m.write(t, m.proc, "cgroup", "0::/app\n")
		if levels, err := Levels(m.proc); err != nil || len(levels) > 0 {
			t.Errorf("got %v, %v", levels, err)
		}
	})
}

func TestARefusalOfCgroupsOfVersion2SaysWhatToDo(t *testing.T) {
	const v2, v1 = "0::/kubepods/pod1/app\n", "2:cpu,cpuacct:/app\n0::/\n"
	const privileged, other = "Name:\tktsn\nCapEff:\t0000000000a04000\n", "CapEff:\t0000000000204000\n"
	refused := fmt.Errorf("try SCHED_FIFO: %w", syscall.EPERM)
	for name, test := range map[string]struct {
		cgroup, status string
		tried          error
		want           error
	}{
		"the kernel refuses SCHED_FIFO": {v2, privileged, refused, ErrRoot},
		"the kernel gives SCHED_FIFO":   {v2, privileged, nil, nil},
		"another failure is named":      {v2, privileged, syscall.ENOSYS, syscall.ENOSYS},
		"without the capability":        {v2, other, refused, nil},
		"with cgroups of version 1":     {v1, privileged, refused, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, "/app", "/")
			m.write(t, m.proc, "cgroup", test.cgroup)
			m.write(t, m.proc, "status", test.status)
			if err := Check(m.proc, func() error { return test.tried }); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

// To a thread, a cgroup of version 1 without a share is what one of version 2 is below the root.
func TestTheKernelsRefusalIsKnownAsSuch(t *testing.T) {
	parent, divided := dividedCgroup(t)
	if !divided {
		return
	}
	own, err := ownCgroup("/proc/thread-self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	move := func(to string) {
		if err := os.WriteFile(filepath.Join(to, "tasks"), []byte(strconv.Itoa(unix.Gettid())), 0); err != nil {
			t.Fatal(err)
		}
	}
	move(parent)
	defer move(filepath.Join(filepath.Dir(parent), own))
	m := newMachine(t, "/app", "/")
	m.write(t, m.proc, "cgroup", "0::/kubepods/pod1/app\n")
	m.write(t, m.proc, "status", "CapEff:\t0000000000800000\n")
	if err := Check(m.proc, TryFIFO); !errors.Is(err, ErrRoot) {
		t.Errorf("got %v", err)
	}
}

func TestATrialLeavesTheSchedulingAsItWas(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := TryFIFO(); err != nil && !errors.Is(err, syscall.EPERM) {
		t.Fatal(err)
	}
	if after, err := unix.SchedGetAttr(0, 0); err != nil || after.Policy != before.Policy || after.Nice != before.Nice {
		t.Errorf("got %+v, %v, want %+v", after, err, before)
	}
}

func TestWhatCannotBeSeenIsSaid(t *testing.T) {
	m := newMachine(t, "/kubepods/pod1/app", "/kubepods/pod1/app")
	m.cgroup(t, "", 0)
	if _, err := Levels(m.proc); !errors.Is(err, ErrHidden) {
		t.Errorf("got %v", err)
	}
}

func TestARefusalNamesTheLevel(t *testing.T) {
	m := newMachine(t, "/app", "/")
	dir := m.cgroup(t, "app", 0)
	levels, err := Levels(m.proc)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, periodFile)); err != nil {
		t.Fatal(err)
	}
	if err := Raise(t.Context(), levels, 0.1); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
}
