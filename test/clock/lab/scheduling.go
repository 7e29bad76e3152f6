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

// Favour lets the guest go before other programs of this machine, so that the load of others is no jitter of the guests' network. What
// emulates devices goes before what emulates the processor, which may wait for them without sleeping. A guest that is idle uses
// hardly any of it.
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
