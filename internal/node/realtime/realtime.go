// SPDX-License-Identifier: Apache-2.0

package realtime

import (
	"bufio"
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

	"golang.org/x/sys/unix"
)

const (
	runtimeFile = "cpu.rt_runtime_us"
	periodFile  = "cpu.rt_period_us"
)

// ErrHidden says that the cgroups above the own one cannot be seen.
var ErrHidden = errors.New("the hierarchy of the cpu controller is not mounted whole; " +
	"in a container, mount the node's /sys/fs/cgroup, writable")

// ErrRoot says that a share is to be had in the root cgroup only.
var ErrRoot = errors.New("the kernel refuses SCHED_FIFO here: it divides real-time scheduling among cgroups (CONFIG_RT_GROUP_SCHED), " +
	"and of cgroups of version 2 only the root has a budget; on the node, set the sysctl kernel.sched_rt_runtime_us to -1, or boot " +
	"with rt_group_sched=0 where the kernel has that parameter, or with a kernel without CONFIG_RT_GROUP_SCHED")

// Check fails with ErrRoot where there is no share to give although SCHED_FIFO needs one: in cgroups of version 2 of a
// kernel that divides the budget. No file tells that, so SCHED_FIFO is tried. Of a program without CAP_SYS_NICE, which
// the kernel refuses in any case, nothing is said. proc is /proc/self.
func Check(proc string, tryFIFO func() error) error {
	own, err := ownCgroup(filepath.Join(proc, "cgroup"))
	if err != nil || own != "" {
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

// hasSysNice reads whether CAP_SYS_NICE is effective.
func hasSysNice(status string) (bool, error) {
	text, err := os.ReadFile(status)
	if err != nil {
		return false, fmt.Errorf("read own capabilities: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		value, found := strings.CutPrefix(line, "CapEff:")
		if !found {
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

// TryFIFO gives this thread SCHED_FIFO, and takes it back.
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

// Levels lists the folders of this process's cgroup in the cpu controller's hierarchy and of those above it, the
// topmost below the root first. There are none where the kernel does not divide the budget. proc is /proc/self.
func Levels(proc string) ([]string, error) {
	own, err := ownCgroup(filepath.Join(proc, "cgroup"))
	if err != nil || own == "" || own == "/" {
		return nil, err
	}
	root, err := hierarchy(filepath.Join(proc, "mountinfo"), own)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(root, own, runtimeFile)); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var levels []string
	for name := own; name != "/"; name = filepath.Dir(name) {
		levels = append(levels, filepath.Join(root, name))
	}
	slices.Reverse(levels)
	return levels, nil
}

// ownCgroup reads lines such as "2:cpu,cpuacct:/kubepods/pod1". Without a controller of version 1 it is "".
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

// hierarchy finds a mount of the cpu controller's whole hierarchy, in which own can be seen. Container runtimes
// show a container its own cgroup only.
func hierarchy(mountinfo, own string) (string, error) {
	file, err := os.Open(mountinfo)
	if err != nil {
		return "", fmt.Errorf("find cgroups: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		mount, super := strings.Fields(before), strings.Fields(after)
		if len(mount) < 5 || len(super) < 3 || super[0] != "cgroup" || mount[3] != "/" ||
			!slices.Contains(strings.Split(super[2], ","), "cpu") {
			continue
		}
		if _, err := os.Stat(filepath.Join(mount[4], own)); err == nil {
			return mount[4], nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("find cgroups: %w", err)
	}
	return "", ErrHidden
}

// poll is the time between attempts to get a share.
const poll = 50 * time.Millisecond

// Raise gives the lowest level at least the share, and those above what it and their other children have together;
// levels that have enough are left alone. What is above may not have that: it is asked again until the context ends,
// because when a pod is replaced the kernel counts its share until its cgroup is gone, which can be seconds after its
// successor starts. A share of others that nobody can use is taken back, such as that of a class of pods
// (kubepods/burstable) whose last pod with a share has gone.
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
	// From the top: none may have more than what is above it.
	for i, level := range levels {
		if budgets[i] == 0 {
			continue
		}
		text := strconv.FormatInt(budgets[i].Microseconds(), 10)
		if err := os.WriteFile(filepath.Join(level, runtimeFile), []byte(text), 0); err != nil {
			return fmt.Errorf("give cgroup %s real-time budget: %w; what stands above it leaves less than %s µs", level, err, text)
		}
	}
	return nil
}

// plan tells each level's new budget, 0 for those that have enough.
func plan(levels []string, share float64) ([]time.Duration, error) {
	budgets := make([]time.Duration, len(levels))
	below := ""
	for i, level := range slices.Backward(levels) {
		others, err := ofChildren(level, below)
		if err != nil {
			return nil, fmt.Errorf("look for real-time budget: %w", err)
		}
		has, period, err := budget(level)
		if err != nil {
			return nil, fmt.Errorf("look for real-time budget: %w", err)
		}
		below = level
		share += others
		want := time.Duration(share * float64(period)).Round(time.Microsecond)
		switch {
		case has < 0: // without limit
		case has < want:
			budgets[i] = want
		default:
			share = float64(has) / float64(period)
		}
	}
	return budgets, nil
}

// returnUnused lowers the shares of groups of cgroups beside the levels to what their children have. Where there are processes, and
// where there are no children, the share is somebody's. What fails is tried again with the next attempt.
func returnUnused(levels []string) {
	for _, level := range levels {
		found, _ := filepath.Glob(filepath.Join(filepath.Dir(level), "*", runtimeFile))
		for _, file := range found {
			sibling := filepath.Dir(file)
			processes, err := os.ReadFile(filepath.Join(sibling, "cgroup.procs"))
			children, _ := filepath.Glob(filepath.Join(sibling, "*", runtimeFile))
			if err != nil || len(processes) > 0 || len(children) == 0 || slices.Contains(levels, sibling) {
				continue
			}
			used, errUsed := ofChildren(sibling, "")
			has, period, errHas := budget(sibling)
			if want := time.Duration(used * float64(period)).Round(time.Microsecond); errUsed == nil && errHas == nil && has > want {
				_ = os.WriteFile(file, []byte(strconv.FormatInt(want.Microseconds(), 10)), 0)
			}
		}
	}
}

// ofChildren adds up the shares of a cgroup's children but one.
func ofChildren(level, but string) (float64, error) {
	sum := 0.0
	found, err := filepath.Glob(filepath.Join(level, "*", runtimeFile))
	for _, file := range found {
		child := filepath.Dir(file)
		if child == but {
			continue
		}
		has, period, errChild := budget(child)
		if errors.Is(errChild, os.ErrNotExist) || errors.Is(errChild, syscall.ENODEV) || has < 0 {
			continue // gone meanwhile, or without limit
		}
		err = errors.Join(err, errChild)
		if errChild == nil {
			sum += float64(has) / float64(period)
		}
	}
	return sum, err
}

// budget reads what a cgroup may use of each period; below zero: without limit.
func budget(level string) (has, period time.Duration, err error) {
	if period, err = read(filepath.Join(level, periodFile)); err != nil {
		return 0, 0, err
	}
	has, err = read(filepath.Join(level, runtimeFile))
	return has, period, err
}

// read reads a number of microseconds.
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
