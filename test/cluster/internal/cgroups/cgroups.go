// SPDX-License-Identifier: Apache-2.0

package cgroups

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Hierarchy is a mounted cgroup file system.
type Hierarchy struct {
	Path string
	// Version is 1 or 2.
	Version int
	// Controllers are the hierarchy's controllers. In version 1 they are the mount options, which include others.
	Controllers []string
}

// Hierarchies parses a file like /proc/self/mountinfo.
func Hierarchies(mountinfo string) ([]Hierarchy, error) {
	file, err := os.Open(mountinfo)
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	defer file.Close()
	var hierarchies []Hierarchy
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		mount, super := strings.Fields(before), strings.Fields(after)
		if len(mount) < 5 || len(super) < 3 || (super[0] != "cgroup" && super[0] != "cgroup2") {
			continue
		}
		hierarchy := Hierarchy{Path: mount[4], Version: 1, Controllers: strings.Split(super[2], ",")}
		if super[0] == "cgroup2" {
			if hierarchy.Version, hierarchy.Controllers = 2, nil; mount[3] == "/" {
				hierarchy.Controllers = controllersOf(hierarchy.Path)
			}
		}
		hierarchies = append(hierarchies, hierarchy)
	}
	return hierarchies, lines.Err()
}

// controllersOf returns the controllers of a cgroup of version 2.
func controllersOf(folder string) []string {
	text, err := os.ReadFile(filepath.Join(folder, "cgroup.controllers"))
	if err != nil {
		return nil // the mount is covered by another, or cannot be read: nothing can be had of it
	}
	return strings.Fields(string(text))
}

// OfController returns the hierarchy of a controller.
func OfController(all []Hierarchy, controller string) (Hierarchy, error) {
	for _, hierarchy := range all {
		if slices.Contains(hierarchy.Controllers, controller) {
			return hierarchy, nil
		}
	}
	return Hierarchy{}, fmt.Errorf("no cgroup hierarchy with the controller %q is mounted", controller)
}

// needed are the controllers that kubelet requires, by version. Version 2 has no controllers for devices and freezing:
// eBPF programs and the cgroup core do their work.
var needed = map[int][]string{
	1: {"cpu", "cpuset", "memory", "devices", "freezer", "pids"},
	2: {"cpu", "cpuset", "memory", "pids"},
}

// VersionOf returns the version of the hierarchies for containers: 2 if one hierarchy of version 2 has all needed
// controllers (a unified host), else 1. It fails if controllers are missing.
func VersionOf(all []Hierarchy) (int, error) {
	cpu, err := OfController(all, "cpu")
	if err != nil {
		return 0, err
	}
	for _, controller := range needed[cpu.Version] {
		hierarchy, err := OfController(all, controller)
		if err != nil {
			return 0, err
		}
		if hierarchy.Version != cpu.Version {
			return 0, fmt.Errorf("the controller %q is one of cgroup v%d, and cpu one of v%d; boot with all of them in one version",
				controller, hierarchy.Version, cpu.Version)
		}
	}
	return cpu.Version, nil
}

// Version is VersionOf for this machine.
func Version() (int, error) {
	all, err := Hierarchies(ownMounts)
	if err != nil {
		return 0, err
	}
	return VersionOf(all)
}

// ownMounts are the mounts that this process sees.
const ownMounts = "/proc/self/mountinfo"

// Find returns the existing folders of a cgroup in all hierarchies.
func Find(name string) ([]string, error) {
	all, err := Hierarchies(ownMounts)
	if err != nil {
		return nil, err
	}
	var folders []string
	for _, hierarchy := range all {
		path := filepath.Join(hierarchy.Path, name)
		if info, err := os.Stat(path); err == nil && info.IsDir() && !slices.Contains(folders, path) {
			folders = append(folders, path)
		}
	}
	return folders, nil
}

// Processes returns the processes in a cgroup and its descendants.
func Processes(name string) ([]int, error) {
	folders, err := Find(name)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return ignoreGone(err)
			}
			text, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			for _, field := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(field); err == nil && !slices.Contains(pids, pid) {
					pids = append(pids, pid)
				}
			}
			return ignoreGone(err)
		})
		if err != nil {
			return nil, fmt.Errorf("list the processes of cgroup %s: %w", name, err)
		}
	}
	return pids, nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}

const (
	poll = 50 * time.Millisecond
	// budgetPatience is for how long a folder is kept because its real-time budget cannot be returned yet.
	budgetPatience = 5 * time.Second
)

// Remove kills all processes in a cgroup and its descendants, and removes the folders. It is not an error if there are
// none.
func Remove(ctx context.Context, name string) error {
	began := time.Now()
	for {
		pids, err := Processes(name)
		if err != nil {
			return err
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // fails only when it has just ended
		}
		left, err := removeFolders(name, time.Since(began) > budgetPatience)
		if err != nil || len(left) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove cgroup %s: %s is still in use by %v: %w", name, left[0], pids, ctx.Err())
		case <-time.After(poll):
		}
	}
}

// removeFolders removes folders and returns those that remain. Without insist, folders whose real-time budget cannot be
// returned yet remain.
func removeFolders(name string, insist bool) ([]string, error) {
	folders, err := Find(name)
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		var below []string
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				below = append(below, path)
			}
			return ignoreGone(err)
		})
		if err != nil {
			return nil, fmt.Errorf("remove cgroup %s: %w", name, err)
		}
		slices.Reverse(below)
		for _, path := range below {
			if returnRealtime(path) == nil || insist {
				_ = syscall.Rmdir(path) // the next round shows
			}
		}
	}
	return Find(name)
}

// Enter moves this process into a cgroup, which it creates if needed. One hierarchy suffices for Remove to find it.
func Enter(name string) error {
	all, err := Hierarchies(ownMounts)
	if err != nil {
		return err
	}
	hierarchy, err := OfController(all, "pids")
	if err != nil {
		return err
	}
	folder := filepath.Join(hierarchy.Path, name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("enter cgroup %s: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return fmt.Errorf("enter cgroup %s: %w", name, err)
	}
	return nil
}
