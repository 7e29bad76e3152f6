// SPDX-License-Identifier: Apache-2.0

//go:build guest

package inside

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

func TestNodeHasOnlyCgroupsVersion2(t *testing.T) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if kind := strings.Fields(line)[2]; kind == "cgroup" {
			t.Errorf("a hierarchy of version 1 is mounted: %s", line)
		}
	}
	var root unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &root); err != nil || root.Type != unix.CGROUP2_SUPER_MAGIC {
		t.Errorf("/sys/fs/cgroup is of type %x, %v", root.Type, err)
	}
}

func TestKtsndStarts(t *testing.T) {
	pod := chartsPod(t, "chart.yaml", "ktsnd")
	start(t, pod)
	container := &pod.Spec.Containers[0]
	spec := specOf(t, "ktsnd")
	t.Run("with its command", func(t *testing.T) {
		var want []string
		for _, word := range append(append([]string{}, container.Command...), container.Args...) {
			want = append(want, strings.ReplaceAll(word, "$(POD_NAME)", pod.Name+"-"+hostname))
		}
		if fmt.Sprint(spec.Process.Args) != fmt.Sprint(want) {
			t.Errorf("got %q, want %q", spec.Process.Args, want)
		}
	})
	t.Run("with its capabilities and no others", func(t *testing.T) {
		var want []string
		for _, name := range container.SecurityContext.Capabilities.Add {
			want = append(want, "CAP_"+string(name))
		}
		if got := spec.Process.Capabilities.Effective; !sameWords(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("with a root that it cannot write", func(t *testing.T) {
		path := fmt.Sprintf("/proc/%d/root/usr/bin/new", processOf(t, "ktsnd"))
		if err := os.WriteFile(path, nil, 0o644); err == nil || !spec.Root.Readonly {
			t.Errorf("%s could be written; the runtime was told readonly: %v", path, spec.Root.Readonly)
		}
	})
	t.Run("without new privileges and with the runtime's seccomp profile", func(t *testing.T) {
		if !spec.Process.NoNewPrivileges || spec.Linux.Seccomp == nil {
			t.Errorf("the runtime was told NoNewPrivileges %v, a profile %v", spec.Process.NoNewPrivileges, spec.Linux.Seccomp != nil)
		}
		for _, process := range ktsndProcesses(t, "ktsnd") {
			if status := statusFile(t, process); status["NoNewPrivs"] != "1" || status["Seccomp"] != "2" {
				t.Errorf("a process has NoNewPrivs %s, Seccomp %s", status["NoNewPrivs"], status["Seccomp"])
			}
		}
	})
	t.Run("with its limit of memory", func(t *testing.T) {
		limit := container.Resources.Limits[corev1.ResourceMemory]
		if got, want := cgroupFile(t, "ktsnd", "memory.max"), strconv.FormatInt(limit.Value(), 10); got != want {
			t.Errorf("memory.max is %s, want %s", got, want)
		}
	})
	t.Run("in a cgroup with the controller cpu, as real-time group scheduling would have it", func(t *testing.T) {
		if got := cgroupFile(t, "ktsnd", "cgroup.controllers"); !strings.Contains(" "+got+" ", " cpu ") {
			t.Errorf("its cgroup has the controllers %s", got)
		}
	})
}

// Debian's kernel does not divide real-time scheduling among cgroups.
func TestKtsnRealtimeIsSilent(t *testing.T) {
	if log := containerLog(t, "ktsnd"); strings.Contains(log, "ktsn-realtime") || strings.Contains(log, "no real-time budget") {
		t.Errorf("the log is\n%s", log)
	}
}

// Cgroups of version 2 have no real-time budget.
func TestBudgetOfWholeKernel(t *testing.T) {
	if log := containerLog(t, "ktsnd"); !strings.Contains(log, "(kernel.sched_rt_runtime_us)") {
		t.Errorf("the log does not name kernel.sched_rt_runtime_us:\n%s", log)
	}
}

func TestKtsndHasRealTimeSchedulingOnItsProcessor(t *testing.T) {
	pinned := 0
	for _, thread := range realTimeThreads(t, "ktsnd") {
		var allowed unix.CPUSet
		if err := unix.SchedGetaffinity(thread, &allowed); err != nil {
			t.Fatal(err)
		}
		if allowed.Count() == 1 && allowed.IsSet(1) {
			pinned++
		}
	}
	if says := statusOf(t).Scheduler; says != "SCHED_FIFO" || pinned == 0 {
		t.Errorf("ktsnd says %q, and the kernel that %d threads with SCHED_FIFO are on processor 1 alone", says, pinned)
	}
}

// realTimeThreads returns the threads of a pod's ktsnd that have SCHED_FIFO.
func realTimeThreads(t *testing.T, pod string) []int {
	t.Helper()
	var threads []int
	for _, process := range ktsndProcesses(t, pod) {
		for _, thread := range threadsOf(t, process) {
			attributes, err := unix.SchedGetAttr(thread, 0)
			if err != nil {
				t.Fatal(err)
			}
			if attributes.Policy == unix.SCHED_FIFO {
				threads = append(threads, thread)
			}
		}
	}
	return threads
}

// ktsndProcesses returns the processes of ktsnd in its container, in which probes run as well.
func ktsndProcesses(t *testing.T, pod string) []int {
	t.Helper()
	var pids []int
	for _, field := range strings.Fields(cgroupFile(t, pod, "cgroup.procs")) {
		name, err := os.ReadFile(filepath.Join("/proc", field, "comm"))
		if err != nil || strings.TrimSpace(string(name)) != "ktsnd" {
			continue // a probe, which may have ended meanwhile
		}
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) == 0 {
		t.Fatal("no ktsnd is in its container")
	}
	return pids
}

func TestKtsndMemoryIsLocked(t *testing.T) {
	var locked []string
	for _, process := range ktsndProcesses(t, "ktsnd") {
		locked = append(locked, statusFile(t, process)["VmLck"])
	}
	if !slices.ContainsFunc(locked, func(size string) bool { return size != "" && size != "0 kB" }) {
		t.Errorf("of its processes is locked: %q", locked)
	}
}

// ociSpec is the part of the OCI configuration that these tests check.
type ociSpec struct {
	Process struct {
		Args            []string `json:"args"`
		NoNewPrivileges bool     `json:"noNewPrivileges"`
		Capabilities    struct {
			Effective []string `json:"effective"`
		} `json:"capabilities"`
	} `json:"process"`
	Root struct {
		Readonly bool `json:"readonly"`
	} `json:"root"`
	Linux struct {
		Seccomp map[string]any `json:"seccomp"`
	} `json:"linux"`
}

func specOf(t *testing.T, pod string) ociSpec {
	t.Helper()
	text, err := output("ctr", "--namespace=k8s.io", "containers", "info", "--spec", containerID(t, pod))
	if err != nil {
		t.Fatal(err)
	}
	var spec ociSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

func sameWords(a, b []string) bool {
	count := map[string]int{}
	for _, word := range a {
		count[word]++
	}
	for _, word := range b {
		count[word]--
	}
	for _, left := range count {
		if left != 0 {
			return false
		}
	}
	return true
}

// statusFile returns the fields of /proc/PID/status.
func statusFile(t *testing.T, pid int) map[string]string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	return fields
}

// cgroupFile reads a file of the cgroup of a pod's container.
func cgroupFile(t *testing.T, pod, name string) string {
	t.Helper()
	cgroups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", processOf(t, pod)))
	if err != nil {
		t.Fatal(err)
	}
	_, path, _ := strings.Cut(strings.TrimSpace(string(cgroups)), "::")
	text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", path, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func threadsOf(t *testing.T, pid int) []int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	var threads []int
	for _, entry := range entries {
		if thread, err := strconv.Atoi(entry.Name()); err == nil {
			threads = append(threads, thread)
		}
	}
	return threads
}

// ktsndStatus is the part of ktsnd's status that these tests check.
type ktsndStatus struct {
	Scheduler string            `json:"scheduler"`
	Endpoints int               `json:"endpoints"`
	Sockets   int               `json:"sockets"`
	Counters  map[string]uint64 `json:"counters"`
}

func statusOf(t *testing.T) ktsndStatus {
	t.Helper()
	text, err := output(binary("ktsn"), "status", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var state struct {
		Status ktsndStatus `json:"status"`
	}
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		t.Fatalf("ktsn status: %v: %s", err, text)
	}
	return state.Status
}
