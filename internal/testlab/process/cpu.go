// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// CPUTime returns the processor time of all running threads of a process in nanoseconds. (wait4 and /proc/PID/stat
// count in ticks.)
func CPUTime(pid int) (time.Duration, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("read the processor time of process %d: no /proc/%d/task/*/schedstat; "+
			"it has ended, or the kernel lacks CONFIG_SCHED_INFO", pid, pid)
	}
	var sum time.Duration
	for _, file := range files {
		spent, err := threadTime(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) { // a thread that has just ended
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("read the processor time of process %d: %w", pid, err)
		}
		sum += spent
	}
	return sum, nil
}

// threadTime reads the first number of a schedstat file.
func threadTime(file string) (time.Duration, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	nanoseconds, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return time.Duration(nanoseconds), nil
}
