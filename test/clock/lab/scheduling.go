// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Favour gives the guest real-time priority, so that other load adds no jitter to the guests' network. The threads that
// emulate devices have priority over those that emulate the processor, which may wait for them without sleeping. An
// idle guest uses hardly any processor time.
func (g *Guest) Favour() error {
	process := g.command.Process.Pid
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", process))
	if err != nil {
		return err
	}
	for _, path := range threads {
		thread, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			return err
		}
		priority := uint32(1)
		if thread == process {
			priority = 2
		}
		attributes := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: priority}
		if err := unix.SchedSetAttr(thread, attributes, 0); err != nil {
			return fmt.Errorf("give %s real-time priority: %w", g.Name, os.NewSyscallError("sched_setattr", err))
		}
	}
	return nil
}
