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

// ticksPerSecond is the unit of processor time in /proc, the same on all Linux that Go runs on (USER_HZ).
const ticksPerSecond = 100

// Usage is what the processes of one program use.
type Usage struct {
	Program   string
	Processes int
	// PSSBytes is memory, of which what processes share is divided among them.
	PSSBytes int64
	// Cores is the processor time per time.
	Cores float64
}

// process is one of a cluster at one time. A program's name and a number that was given again tell processes apart well enough.
type process struct {
	pid     int
	program string
}

// Usage looks for so long at all processes of a cluster that are there at the beginning and at the end.
func (c *Cluster) Usage(ctx context.Context, during time.Duration) ([]Usage, error) {
	return usageOf(ctx, during, func() ([]int, error) { return cgroups.Processes(c.Cgroup()) })
}

// UsageOf looks for so long at a process that is none of a cluster's.
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
		return fmt.Errorf("look what cluster %s uses: %w", c.Name, err)
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

// processorTimes are in ticks.
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

// readStat reads the name of a process's program and what the process has used of processors, in all its threads.
func readStat(pid int) (program string, ticks int64, err error) {
	file, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return "", 0, err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, err
	}
	// The second field is in parentheses and may have blanks.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const user, system = 11, 12 // of the fields behind it
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

// pss is 0 of a process that has ended meanwhile.
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
