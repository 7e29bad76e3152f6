// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// fifoPriority is ktsnd's default SCHED_FIFO priority; ktsnd reports whether it got it.
const fifoPriority = 50

// scheduling is a program's real-time scheduling. ktsnd and the talkers of spinning paths have the same, for a fair
// comparison of paths.
type scheduling struct {
	// spin is the longest time of busy-waiting before a departure or send.
	spin time.Duration
	// fifo is the SCHED_FIFO priority; 0 if the kernel denies it.
	fifo int
}

// chooseScheduling tests whether the kernel allows real-time scheduling for this process and its children.
func chooseScheduling(spin time.Duration) (scheduling, error) {
	denied := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its priority
		denied <- unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: fifoPriority}, 0)
	}()
	switch err := <-denied; {
	case err == nil:
		return scheduling{spin, fifoPriority}, nil
	case errors.Is(err, unix.EPERM):
		return scheduling{spin, 0}, nil
	default:
		return scheduling{}, fmt.Errorf("find out whether the kernel gives SCHED_FIFO: %w", err)
	}
}

// check rejects a ktsnd with different scheduling.
func (a scheduling) check(status *control.Status) error {
	if ktsnd := (scheduling{time.Duration(status.SpinNs), status.FIFOPriority()}); ktsnd != a {
		return fmt.Errorf("ktsnd is awake %v before a departure with SCHED_FIFO priority %d, and the talkers to compare it with %v before a "+
			"send with priority %d; nothing can be compared", ktsnd.spin, ktsnd.fifo, a.spin, a.fifo)
	}
	return nil
}

// arguments returns the arguments for a talker of a path.
func (a scheduling) arguments(path string) []string {
	if !results.Spins(path) {
		return nil
	}
	return traffic.Spin(a.spin, a.fifo)
}
