// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cgroups"
)

// ticksPerSecond is the unit of processor time in /proc, the same on every Linux that Go runs on (USER_HZ).
const ticksPerSecond = 100

// Usage is the memory and processor usage of one program's processes.
type Usage struct {
	Program   string
	Processes int
	// PSSBytes is the proportional set size: shared memory is divided among its users.
	PSSBytes int64
	// Cores is the processor time per time.
	Cores float64
}

// process identifies a process of a cluster. The program's name and the PID, which may be reused, are distinct enough.
type process struct {
	pid     int
	program string
}

// Usage measures all processes of a cluster that exist for the whole time.
func (c *Cluster) Usage(ctx context.Context, during time.Duration) ([]Usage, error) {
	return usageOf(ctx, during, func() ([]int, error) { return cgroups.Processes(c.Cgroup()) })
}

// UsageOf measures a process that is not part of a cluster.
func UsageOf(ctx context.Context, pid int, during time.Duration) ([]Usage, error) {
	return usageOf(ctx, during, func() ([]int, error) { return []int{pid}, nil })
}

func usageOf(ctx context.Context, during time.Duration, processes func() ([]int, error)) ([]Usage, error) {
	before, err := processorTimes(processes)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(during):
	}
	after, err := processorTimes(processes)
	if err != nil {
		return nil, err
	}
	elapsed := time.Since(began).Seconds()
	programs := map[string]*Usage{}
	for which, ticks := range after {
		ticksBefore, there := before[which]
		if !there {
			continue
		}
		memory, err := pss(which.pid)
		if err != nil {
			return nil, err
		}
		if programs[which.program] == nil {
			programs[which.program] = &Usage{Program: which.program}
		}
		usage := programs[which.program]
		usage.Processes++
		usage.PSSBytes += memory
		usage.Cores += float64(ticks-ticksBefore) / ticksPerSecond / elapsed
	}
	var all []Usage
	for _, usage := range programs {
		all = append(all, *usage)
	}
	slices.SortFunc(all, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(b.PSSBytes, a.PSSBytes), strings.Compare(a.Program, b.Program))
	})
	return all, nil
}

// PrintUsage prints Usage as a table, with the sum.
func (c *Cluster) PrintUsage(ctx context.Context, during time.Duration, to io.Writer) error {
	all, err := c.Usage(ctx, during)
	if err != nil {
		return fmt.Errorf("measure the usage of cluster %s: %w", c.Name, err)
	}
	sum := Usage{Program: "sum"}
	fmt.Fprintf(to, "%-28s %9s %9s %9s\n", c.Name, "processes", "PSS MiB", "core %")
	for _, usage := range all {
		usage.print(to)
		sum.Processes += usage.Processes
		sum.PSSBytes += usage.PSSBytes
		sum.Cores += usage.Cores
	}
	sum.print(to)
	return nil
}

func (u Usage) print(to io.Writer) {
	fmt.Fprintf(to, "%-28s %9d %9.1f %9.2f\n", u.Program, u.Processes, float64(u.PSSBytes)/(1<<20), 100*u.Cores)
}

// processorTimes returns processor times in ticks.
func processorTimes(processes func() ([]int, error)) (map[process]int64, error) {
	pids, err := processes()
	if err != nil {
		return nil, err
	}
	all := map[process]int64{}
	for _, pid := range pids {
		program, ticks, err := readStat(pid)
		if isGone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all[process{pid, program}] = ticks
	}
	return all, nil
}

// readStat returns the name of a process's program and its processor time in ticks, of all threads.
func readStat(pid int) (program string, ticks int64, err error) {
	file, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return "", 0, err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, err
	}
	// The second field is in parentheses and may contain spaces.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const user, system = 11, 12 // of the fields after it
	if len(fields) <= system {
		return "", 0, fmt.Errorf("/proc/%d/stat: %q is not what Linux writes", pid, text)
	}
	for _, field := range fields[user : system+1] {
		count, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return "", 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		ticks += count
	}
	return filepath.Base(file), ticks, nil
}

// pss returns a process's proportional set size in bytes, 0 if it has ended.
func pss(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if isGone(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "Pss:" {
			continue
		}
		kibibytes, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/smaps_rollup: %w", pid, err)
		}
		return kibibytes << 10, nil
	}
	return 0, nil
}

func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}
