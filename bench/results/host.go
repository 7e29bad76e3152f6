// SPDX-License-Identifier: Apache-2.0

package results

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

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
	model, err := cpuModel()
	if err != nil {
		return Host{}, fmt.Errorf("describe host: %w", err)
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

// userHz is the unit of /proc/stat, the same on all architectures.
const userHz = 100

// StolenTime is the time of all cores that the hypervisor has given to others since boot.
func StolenTime() (time.Duration, error) {
	times, err := cpuTimes()
	if err != nil {
		return 0, fmt.Errorf("read stolen time: %w", err)
	}
	return times[stolen], nil
}

// SoftIRQTime is the time of all cores for packet processing and other software interrupts since boot.
func SoftIRQTime() (time.Duration, error) {
	times, err := cpuTimes()
	if err != nil {
		return 0, fmt.Errorf("read the time of software interrupts: %w", err)
	}
	return times[softIRQ], nil
}

// BusyTime is the time that all cores have worked since boot.
func BusyTime() (time.Duration, error) {
	times, err := cpuTimes()
	if err != nil {
		return 0, fmt.Errorf("read the machine's processor time: %w", err)
	}
	var sum time.Duration
	for i, field := range times {
		if i != idle && i != ioWait && i != stolen {
			sum += field
		}
	}
	return sum, nil
}

// The times of /proc/stat: user nice system idle iowait irq softirq steal. The time of guests is part of user.
const (
	idle      = 3
	ioWait    = 4
	softIRQ   = 6
	stolen    = 7
	cpuFields = 8
)

func cpuTimes() (times [cpuFields]time.Duration, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return times, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(first)
	if len(fields) <= cpuFields || fields[0] != "cpu" {
		return times, fmt.Errorf("/proc/stat begins with %q", first)
	}
	for i := range times {
		ticks, err := strconv.ParseInt(fields[i+1], 10, 64)
		if err != nil {
			return times, err
		}
		times[i] = time.Duration(ticks) * time.Second / userHz
	}
	return times, nil
}

// cpuModel reads the first processor's model; architectures that name none in /proc/cpuinfo get their own name.
func cpuModel() (string, error) {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "", err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value), nil
		}
	}
	return runtime.GOARCH, lines.Err()
}
