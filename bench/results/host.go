// SPDX-License-Identifier: Apache-2.0

package results

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Host describes the machine and programs of a measurement.
type Host struct {
	// Date is when the measurement began.
	Date     time.Time `json:"date"`
	Kernel   string    `json:"kernel"`
	CPUModel string    `json:"cpu_model"`
	// Cores is the number of processors that this process may use.
	Cores       int    `json:"cores"`
	ClockSource string `json:"clock_source"`
	GoVersion   string `json:"go_version"`
	// The following fields are empty if ktsnd took no part.
	KtsndVersion      string `json:"ktsnd_version,omitempty"`
	Scheduler         string `json:"scheduler,omitempty"`
	SchedulerPriority int    `json:"scheduler_priority,omitempty"`
	SpinNs            int64  `json:"spin_ns,omitempty"`
}

// DescribeHost reads the kernel's information about this machine.
func DescribeHost(date time.Time) (Host, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return Host{}, fmt.Errorf("describe host: %w", err)
	}
	model := runtime.GOARCH // for architectures whose /proc/cpuinfo names none
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if processors, err := fs.CPUInfo(); err == nil && len(processors) > 0 {
			model = cmp.Or(processors[0].ModelName, model)
		}
	}
	clockSource, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	if err != nil {
		return Host{}, fmt.Errorf("describe host: %w", err)
	}
	return Host{
		Date:        date.UTC().Truncate(time.Second),
		Kernel:      unix.ByteSliceToString(name.Release[:]) + " " + unix.ByteSliceToString(name.Machine[:]),
		CPUModel:    model,
		Cores:       runtime.NumCPU(),
		ClockSource: strings.TrimSpace(string(clockSource)),
		GoVersion:   runtime.Version(),
	}, nil
}

// CPUTimes are times of all cores since boot: at work, in software interrupts such as packet processing, and given to
// others by the hypervisor.
type CPUTimes struct{ Busy, SoftIRQ, Stolen time.Duration }

// ReadCPUTimes reads them from /proc/stat.
func ReadCPUTimes() (CPUTimes, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return CPUTimes{}, fmt.Errorf("read the machine's processor time: %w", err)
	}
	stat, err := fs.Stat()
	if err != nil {
		return CPUTimes{}, fmt.Errorf("read the machine's processor time: %w", err)
	}
	duration := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
	all := stat.CPUTotal // the time of guests is part of User
	return CPUTimes{duration(all.User + all.Nice + all.System + all.IRQ + all.SoftIRQ), duration(all.SoftIRQ), duration(all.Steal)}, nil
}
