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
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

const (
	runtimeFile = "cpu.rt_runtime_us"
	periodFile  = "cpu.rt_period_us"
)

// ErrHidden means that the parents of the program's cgroup are not visible.
var ErrHidden = errors.New("the hierarchy of the cpu controller is not mounted whole; " +
	"in a container, mount the node's /sys/fs/cgroup, writable")

// ErrRoot means that only the root cgroup has a real-time budget.
var ErrRoot = errors.New("the kernel refuses SCHED_FIFO here: it divides real-time scheduling among cgroups (CONFIG_RT_GROUP_SCHED), " +
	"and of cgroups of version 2 only the root has a budget; on the node, set the sysctl kernel.sched_rt_runtime_us to -1, or boot " +
	"with rt_group_sched=0 where the kernel has that parameter, or with a kernel without CONFIG_RT_GROUP_SCHED")

// Check fails with ErrRoot if SCHED_FIFO needs a share that cannot be given: in cgroups of version 2 of a kernel that divides the
// budget. No file shows that, so Check calls tryFIFO. It does not for a program without CAP_SYS_NICE, which the kernel refuses in
// any case. proc is /proc/self.
func Check(proc string, tryFIFO func() error) error {
	cgroup, err := ownCgroup(filepath.Join(proc, "cgroup"))
	if err != nil || cgroup != "" {
		return err
	}
	privileged, err := hasSysNice(filepath.Join(proc, "status"))
	if err != nil || !privileged {
		return err
	}
	if err := tryFIFO(); !errors.Is(err, syscall.EPERM) {
		return err
	}
	return ErrRoot
}

// hasSysNice reports whether CAP_SYS_NICE is effective.
func hasSysNice(status string) (bool, error) {
	text, err := os.ReadFile(status)
	if err != nil {
		return false, fmt.Errorf("read own capabilities: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		value, ok := strings.CutPrefix(line, "CapEff:")
		if !ok {
			continue
		}
		effective, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil {
			return false, fmt.Errorf("read own capabilities: %w", err)
		}
		return effective&(1<<unix.CAP_SYS_NICE) != 0, nil
	}
	return false, nil
}

// TryFIFO sets SCHED_FIFO for the calling thread and restores its scheduling.
func TryFIFO() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return fmt.Errorf("read own scheduling: %w", err)
	}
	fifo := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	if err := unix.SchedSetAttr(0, &fifo, 0); err != nil {
		return fmt.Errorf("try SCHED_FIFO: %w", err)
	}
	if err := unix.SchedSetAttr(0, before, 0); err != nil {
		return fmt.Errorf("give SCHED_FIFO back: %w", err)
	}
	return nil
}

// Levels returns the folders of this process's cgroup and its parents in the cpu controller's hierarchy, without the root, the
// topmost first; none if the kernel does not divide the budget. proc is /proc/self.
func Levels(proc string) ([]string, error) {
	cgroup, err := ownCgroup(filepath.Join(proc, "cgroup"))
	if err != nil || cgroup == "" || cgroup == "/" {
		return nil, err
	}
	root, err := hierarchy(filepath.Join(proc, "mountinfo"), cgroup)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(root, cgroup, runtimeFile)); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var levels []string
	for name := cgroup; name != "/"; name = filepath.Dir(name) {
		levels = append(levels, filepath.Join(root, name))
	}
	slices.Reverse(levels)
	return levels, nil
}

// ownCgroup returns the cgroup from a line such as "2:cpu,cpuacct:/kubepods/pod1", "" without a cpu controller of version 1.
func ownCgroup(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("find own cgroup: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && slices.Contains(strings.Split(fields[1], ","), "cpu") {
			return fields[2], nil
		}
	}
	return "", nil
}

// hierarchy returns the mount point of the cpu controller's whole hierarchy, which contains the cgroup. Container runtimes mount
// only the container's own cgroup.
func hierarchy(path, cgroup string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("find cgroups: %w", err)
	}
	defer file.Close()
	mounts, err := mountinfo.GetMountsFromReader(file, func(mount *mountinfo.Info) (skip, stop bool) {
		return mount.FSType != "cgroup" || mount.Root != "/" || !slices.Contains(strings.Split(mount.VFSOptions, ","), "cpu"), false
	})
	if err != nil {
		return "", fmt.Errorf("find cgroups: %w", err)
	}
	for _, mount := range mounts {
		if _, err := os.Stat(filepath.Join(mount.Mountpoint, cgroup)); err == nil {
			return mount.Mountpoint, nil
		}
	}
	return "", ErrHidden
}

// poll is the interval between attempts to get a share.
const poll = 50 * time.Millisecond

// Raise gives the lowest level at least the share, and each level above at least the sum of its children. It leaves levels with
// enough budget alone. If the parent lacks budget, it tries again until ctx ends: when a pod is replaced, the kernel counts its share
// until its cgroup is gone, which can be seconds after its successor starts. Raise takes back unusable shares of other cgroups, such
// as that of a class of pods (kubepods/burstable) whose last pod with a share is gone.
func Raise(ctx context.Context, levels []string, share float64) error {
	for {
		err := raise(levels, share)
		if !errors.Is(err, syscall.EINVAL) {
			return err
		}
		returnUnused(levels)
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return err
		}
	}
}

func raise(levels []string, share float64) error {
	budgets, err := plan(levels, share)
	if err != nil {
		return err
	}
	// From the top, because no cgroup may have more than its parent.
	for i, level := range levels {
		if budgets[i] == 0 {
			continue
		}
		text := strconv.FormatInt(budgets[i].Microseconds(), 10)
		if err := os.WriteFile(filepath.Join(level, runtimeFile), []byte(text), 0); err != nil {
			return fmt.Errorf("give cgroup %s real-time budget: %w; its parents have less than %s µs left", level, err, text)
		}
	}
	return nil
}

// plan returns each level's new budget, 0 for levels with enough.
func plan(levels []string, share float64) ([]time.Duration, error) {
	budgets := make([]time.Duration, len(levels))
	below := ""
	for i, level := range slices.Backward(levels) {
		others, err := sumOfChildren(level, below)
		if err != nil {
			return nil, fmt.Errorf("read the real-time budget: %w", err)
		}
		has, period, err := budget(level)
		if err != nil {
			return nil, fmt.Errorf("read the real-time budget: %w", err)
		}
		below = level
		share += others
		want := time.Duration(share * float64(period)).Round(time.Microsecond)
		switch {
		case has < 0: // unlimited
		case has < want:
			budgets[i] = want
		default:
			share = float64(has) / float64(period)
		}
	}
	return budgets, nil
}

// returnUnused lowers the shares of the levels' siblings to the sum of their children. It leaves siblings with processes or without
// children alone, whose share may be in use. The next attempt repeats what fails.
func returnUnused(levels []string) {
	for _, level := range levels {
		files, _ := filepath.Glob(filepath.Join(filepath.Dir(level), "*", runtimeFile))
		for _, file := range files {
			sibling := filepath.Dir(file)
			processes, err := os.ReadFile(filepath.Join(sibling, "cgroup.procs"))
			children, _ := filepath.Glob(filepath.Join(sibling, "*", runtimeFile))
			if err != nil || len(processes) > 0 || len(children) == 0 || slices.Contains(levels, sibling) {
				continue
			}
			used, errUsed := sumOfChildren(sibling, "")
			has, period, errHas := budget(sibling)
			if want := time.Duration(used * float64(period)).Round(time.Microsecond); errUsed == nil && errHas == nil && has > want {
				_ = os.WriteFile(file, []byte(strconv.FormatInt(want.Microseconds(), 10)), 0)
			}
		}
	}
}

// sumOfChildren returns the sum of the shares of a cgroup's children except one.
func sumOfChildren(level, but string) (float64, error) {
	sum := 0.0
	files, err := filepath.Glob(filepath.Join(level, "*", runtimeFile))
	for _, file := range files {
		child := filepath.Dir(file)
		if child == but {
			continue
		}
		has, period, errChild := budget(child)
		if errors.Is(errChild, os.ErrNotExist) || errors.Is(errChild, syscall.ENODEV) || has < 0 {
			continue // removed meanwhile, or unlimited
		}
		err = errors.Join(err, errChild)
		if errChild == nil {
			sum += float64(has) / float64(period)
		}
	}
	return sum, err
}

// budget returns the real-time budget of a cgroup in each period; negative: unlimited.
func budget(level string) (has, period time.Duration, err error) {
	if period, err = read(filepath.Join(level, periodFile)); err != nil {
		return 0, 0, err
	}
	has, err = read(filepath.Join(level, runtimeFile))
	return has, period, err
}

// read reads a duration in microseconds from a file.
func read(file string) (time.Duration, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	number, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return time.Duration(number) * time.Microsecond, nil
}
