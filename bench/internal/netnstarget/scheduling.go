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

// fifoPriority is the SCHED_FIFO priority that ktsnd asks for, and says whether it got.
const fifoPriority = 50

// scheduling is what keeps a program in time. ktsnd and the talkers of paths that spin have the same, so that a comparison of
// them is one of paths.
type scheduling struct {
	// spin is how long before its moment the program is awake at most.
	spin time.Duration
	// fifo is the SCHED_FIFO priority; 0 where the kernel gives none.
	fifo int
}

// chooseScheduling finds out whether the kernel gives real-time scheduling to this process, and so to those that it starts.
func chooseScheduling(spin time.Duration) (scheduling, error) {
	denied := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock it: the thread ends with what it was given
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

// check refuses a ktsnd that is scheduled otherwise.
func (a scheduling) check(status *control.Status) error {
	if ktsnd := (scheduling{time.Duration(status.SpinNs), status.FIFOPriority()}); ktsnd != a {
		return fmt.Errorf("ktsnd is awake %v before a departure with SCHED_FIFO priority %d, and the talkers to compare it with %v before a "+
			"send with priority %d; nothing can be compared", ktsnd.spin, ktsnd.fifo, a.spin, a.fifo)
	}
	return nil
}

// arguments tell a talker of a path.
func (a scheduling) arguments(path string) []string {
	if !results.Spins(path) {
		return nil
	}
	return traffic.Spin(a.spin, a.fifo)
}
