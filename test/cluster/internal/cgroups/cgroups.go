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
	// Controllers are the options of the mount, among them the controllers of version 1.
	Controllers []string
}

// Hierarchies reads a file like /proc/self/mountinfo.
func Hierarchies(mountinfo string) ([]Hierarchy, error) {
	file, err := os.Open(mountinfo)
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	defer file.Close()
	var found []Hierarchy
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		mount, super := strings.Fields(before), strings.Fields(after)
		if len(mount) < 5 || len(super) < 3 || (super[0] != "cgroup" && super[0] != "cgroup2") {
			continue
		}
		found = append(found, Hierarchy{Path: mount[4], Controllers: strings.Split(super[2], ",")})
	}
	return found, lines.Err()
}

// OfController finds the hierarchy of a controller of version 1.
func OfController(controller string) (string, error) {
	all, err := Hierarchies("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	for _, hierarchy := range all {
		if slices.Contains(hierarchy.Controllers, controller) {
			return hierarchy.Path, nil
		}
	}
	return "", fmt.Errorf("no cgroup v1 hierarchy with the controller %q is mounted", controller)
}

// Find lists the folders of a cgroup in all hierarchies, those that are there.
func Find(name string) ([]string, error) {
	all, err := Hierarchies("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, hierarchy := range all {
		path := filepath.Join(hierarchy.Path, name)
		if info, err := os.Stat(path); err == nil && info.IsDir() && !slices.Contains(found, path) {
			found = append(found, path)
		}
	}
	return found, nil
}

// Processes lists who is in a cgroup or below it.
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
	// budgetPatience is how long a folder is kept because its real-time budget cannot be given back yet.
	budgetPatience = 5 * time.Second
)

// Remove kills whoever is in a cgroup or below it, and removes the folders. That there are none is no error.
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

// removeFolders removes what can be removed and returns what is left. Unless it insists, that includes folders whose
// real-time budget cannot be given back yet.
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
