// SPDX-License-Identifier: Apache-2.0

package cgroups

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const realtimeFile = "cpu.rt_runtime_us"

// RealtimeDivided tells whether the kernel divides real-time processor time among cgroups: SCHED_FIFO is then
// refused in a cgroup without a share.
func RealtimeDivided() bool {
	cpu, err := OfController("cpu")
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(cpu, realtimeFile))
	return err == nil
}

// GiveRealtime makes a cgroup of the cpu controller, if need be, and gives it a share of the budget, in
// microseconds of each second. What stands above must have one.
func GiveRealtime(name string, budget int) error {
	cpu, err := OfController("cpu")
	if err != nil {
		return fmt.Errorf("give cgroup %s real-time budget: %w", name, err)
	}
	folder := filepath.Join(cpu, name)
	if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("give cgroup %s real-time budget: %w", name, err)
	}
	err = os.WriteFile(filepath.Join(folder, realtimeFile), []byte(strconv.Itoa(budget)), 0)
	if err != nil {
		return fmt.Errorf("give cgroup %s real-time budget: %w; other cgroups have what the kernel can give (%s); ask for less, or for 0",
			name, err, filepath.Join(cpu, "*", realtimeFile))
	}
	return nil
}

// returnRealtime gives a folder's share back. Otherwise the kernel would count it until the last process that was in
// there has been collected, and refuse it to a successor.
func returnRealtime(folder string) {
	file := filepath.Join(folder, realtimeFile)
	if _, err := os.Stat(file); err == nil {
		_ = os.WriteFile(file, []byte("0"), 0) // whoever is still there keeps it, until the next round
	}
}

// Realtime reads a cgroup's share.
func Realtime(name string) (int, error) {
	cpu, err := OfController("cpu")
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(filepath.Join(cpu, name, realtimeFile))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
