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

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// machine is a fake /proc/self and a hierarchy of cgroups.
type machine struct {
	proc, root string
}

// newMachine creates the files of a process in a cgroup. mounted is the visible part of the hierarchy.
func newMachine(t *testing.T, cgroup, mounted string) machine {
	t.Helper()
	m := machine{proc: t.TempDir(), root: t.TempDir()}
	m.write(t, m.proc, "cgroup", "3:cpuset:/\n2:cpu,cpuacct:"+cgroup+"\n0::/\n")
	m.write(t, m.proc, "mountinfo", fmt.Sprintf("30 24 0:26 / /elsewhere rw - cgroup cgroup rw,cpuset\n"+
		"31 24 0:27 %s %s rw,relatime shared:1 - cgroup cgroup rw,cpu,cpuacct\n", mounted, m.root))
	return m
}

func (m machine) write(t *testing.T, dir, name, text string) {
	t.Helper()
	testlab.Must(t, os.MkdirAll(dir, 0o755))
	testlab.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

// cgroup creates a cgroup with a budget in microseconds.
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
	testlab.Must(t, err)
	return strings.TrimSpace(string(text))
}

func TestRaise(t *testing.T) {
	m := newMachine(t, "/kubepods/pod1/app", "/")
	top := m.cgroup(t, "kubepods", 300000)
	pod := m.cgroup(t, "kubepods/pod1", 0)
	app := m.cgroup(t, "kubepods/pod1/app", -1)
	levels, err := Levels(m.proc)
	testlab.Must(t, err)
	if want := []string{top, pod, app}; fmt.Sprint(levels) != fmt.Sprint(want) {
		t.Fatalf("got %v, want %v", levels, want)
	}
	testlab.Must(t, Raise(t.Context(), levels, 0.1))
	for dir, want := range map[string]string{top: "300000", pod: "100000", app: "-1"} {
		if got := m.budget(t, dir); got != want {
			t.Errorf("%s has %s, want %s", dir, got, want)
		}
	}
}

// As in the kernel, a parent's share must cover the sum of its children.
func TestRaiseSumsChildren(t *testing.T) {
	m := newMachine(t, "/kubepods/pod1", "/")
	top := m.cgroup(t, "kubepods", 100000)
	burstable := m.cgroup(t, "kubepods/burstable", 100000)
	pod := m.cgroup(t, "kubepods/pod1", 0)
	testlab.Must(t, Raise(t.Context(), []string{top, pod}, 0.1))
	for dir, want := range map[string]string{top: "200000", burstable: "100000", pod: "100000"} {
		if got := m.budget(t, dir); got != want {
			t.Errorf("%s has %s, want %s", dir, got, want)
		}
	}
}

// dividedCgroup creates a cgroup in the kernel's hierarchy and removes it, with its children, at the end. If the kernel does not
// divide the budget, divided is false, and it checks that Levels returns none.
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
			t.Errorf("the kernel does not divide the budget; Levels returns %v, %v", levels, err)
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

// below creates children of a cgroup.
func below(t *testing.T, parent string, names ...string) (created []string) {
	t.Helper()
	for _, name := range names {
		created = append(created, filepath.Join(parent, name))
		testlab.Must(t, os.Mkdir(created[len(created)-1], 0o755))
	}
	return created
}

func TestRaiseWaitsForShare(t *testing.T) {
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

// A pod that becomes Guaranteed moves to another parent. The old parent keeps the share of its predecessor.
func TestRaiseTakesBackUnusedShare(t *testing.T) {
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
	testlab.Must(t, os.Remove(pods[0]))
	if err := Raise(t.Context(), []string{groups[1]}, share); err != nil {
		t.Error(err)
	}
	if has, _, err := budget(groups[0]); err != nil || has != 0 {
		t.Errorf("the group has %v, %v", has, err)
	}
}

func TestNoLevels(t *testing.T) {
	t.Run("root cgroup", func(t *testing.T) {
		m := newMachine(t, "/", "/")
		if levels, err := Levels(m.proc); err != nil || len(levels) > 0 {
			t.Errorf("got %v, %v", levels, err)
		}
	})
	t.Run("undivided budget", func(t *testing.T) {
		m := newMachine(t, "/app", "/")
		m.write(t, filepath.Join(m.root, "app"), "cpu.shares", "1024\n")
		if levels, err := Levels(m.proc); err != nil || len(levels) > 0 {
			t.Errorf("got %v, %v", levels, err)
		}
	})
	t.Run("cgroups of version 2", func(t *testing.T) {
		m := newMachine(t, "/app", "/")
		m.write(t, m.proc, "cgroup", "0::/app\n")
		if levels, err := Levels(m.proc); err != nil || len(levels) > 0 {
			t.Errorf("got %v, %v", levels, err)
		}
	})
}

func TestCheck(t *testing.T) {
	const v2, v1 = "0::/kubepods/pod1/app\n", "2:cpu,cpuacct:/app\n0::/\n"
	const privileged, other = "Name:\tktsn\nCapEff:\t0000000000a04000\n", "CapEff:\t0000000000204000\n"
	refused := fmt.Errorf("try SCHED_FIFO: %w", syscall.EPERM)
	for name, test := range map[string]struct {
		cgroup, status string
		tried          error
		want           error
	}{
		"refused":              {v2, privileged, refused, ErrRoot},
		"allowed":              {v2, privileged, nil, nil},
		"other error":          {v2, privileged, syscall.ENOSYS, syscall.ENOSYS},
		"no capability":        {v2, other, refused, nil},
		"cgroups of version 1": {v1, privileged, refused, nil},
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

// For a thread, a cgroup of version 1 without a share behaves like one of version 2 below the root.
func TestCheckInKernel(t *testing.T) {
	parent, divided := dividedCgroup(t)
	if !divided {
		return
	}
	cgroup, err := ownCgroup("/proc/thread-self/cgroup")
	testlab.Must(t, err)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	move := func(to string) {
		testlab.Must(t, os.WriteFile(filepath.Join(to, "tasks"), []byte(strconv.Itoa(unix.Gettid())), 0))
	}
	move(parent)
	defer move(filepath.Join(filepath.Dir(parent), cgroup))
	m := newMachine(t, "/app", "/")
	m.write(t, m.proc, "cgroup", "0::/kubepods/pod1/app\n")
	m.write(t, m.proc, "status", "CapEff:\t0000000000800000\n")
	if err := Check(m.proc, TryFIFO); !errors.Is(err, ErrRoot) {
		t.Errorf("got %v", err)
	}
}

func TestTryFIFORestoresScheduling(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.SchedGetAttr(0, 0)
	testlab.Must(t, err)
	if err := TryFIFO(); err != nil && !errors.Is(err, syscall.EPERM) {
		t.Fatal(err)
	}
	if after, err := unix.SchedGetAttr(0, 0); err != nil || after.Policy != before.Policy || after.Nice != before.Nice {
		t.Errorf("got %+v, %v, want %+v", after, err, before)
	}
}

func TestLevelsHidden(t *testing.T) {
	m := newMachine(t, "/kubepods/pod1/app", "/kubepods/pod1/app")
	m.cgroup(t, "", 0)
	if _, err := Levels(m.proc); !errors.Is(err, ErrHidden) {
		t.Errorf("got %v", err)
	}
}

func TestRaiseErrorNamesLevel(t *testing.T) {
	m := newMachine(t, "/app", "/")
	dir := m.cgroup(t, "app", 0)
	levels, err := Levels(m.proc)
	testlab.Must(t, err)
	testlab.Must(t, os.Remove(filepath.Join(dir, periodFile)))
	if err := Raise(t.Context(), levels, 0.1); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
}
