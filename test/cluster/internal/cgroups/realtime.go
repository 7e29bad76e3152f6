// SPDX-License-Identifier: Apache-2.0

package cgroups

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const realtimeFile = "cpu.rt_runtime_us"

// RealtimeDivided reports whether the kernel divides real-time processor time among cgroups of version 1: then
// SCHED_FIFO is refused in a cgroup without a share. Cgroups of version 2 cannot have one.
func RealtimeDivided() bool {
	cpu, err := realtimeRoot()
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(cpu, realtimeFile))
	return err == nil
}

// realtimeRoot returns the root of the hierarchy in which the budget is divided.
func realtimeRoot() (string, error) {
	all, err := Hierarchies(ownMounts)
	if err != nil {
		return "", err
	}
	cpu, err := OfController(all, "cpu")
	if err == nil && cpu.Version != 1 {
		err = fmt.Errorf("the controller cpu is one of cgroup v%d", cpu.Version)
	}
	return cpu.Path, err
}

// lingering is how long the kernel may count the share of a removed cgroup.
const lingering = 10 * time.Second

// GiveRealtime gives a cgroup of the cpu controller, which it creates if needed, a share of the budget, in microseconds
// per second. The parents must have a share.
func GiveRealtime(ctx context.Context, name string, budget int) error {
	cpu, err := realtimeRoot()
	if err != nil {
		return fmt.Errorf("give cgroup %s real-time budget: %w", name, err)
	}
	folder := filepath.Join(cpu, name)
	if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("give cgroup %s real-time budget: %w", name, err)
	}
	share := []byte(strconv.Itoa(budget))
	err = os.WriteFile(filepath.Join(folder, realtimeFile), share, 0)
	for began := time.Now(); err != nil && time.Since(began) < lingering && ctx.Err() == nil; {
		time.Sleep(poll)
		err = os.WriteFile(filepath.Join(folder, realtimeFile), share, 0)
	}
	if err != nil {
		return fmt.Errorf("give cgroup %s real-time budget: %w; other cgroups have what the kernel can give (%s); ask for less, or for 0",
			name, err, filepath.Join(cpu, "*", realtimeFile))
	}
	return nil
}

// returnRealtime returns a folder's share, which succeeds once no process uses it. If a folder is removed with its
// share, the kernel counts the share until the folder's last process has been reaped, and refuses it to a successor.
func returnRealtime(folder string) error {
	file := filepath.Join(folder, realtimeFile)
	if _, err := os.Stat(file); err != nil {
		return nil //nolint:nilerr // nothing is divided, or nothing is left
	}
	return os.WriteFile(file, []byte("0"), 0)
}

// Realtime returns a cgroup's share, in microseconds per second.
func Realtime(name string) (int, error) {
	cpu, err := realtimeRoot()
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(filepath.Join(cpu, name, realtimeFile))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
