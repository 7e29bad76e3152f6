// SPDX-License-Identifier: Apache-2.0

package hostsettings

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// interruptThreads is the priority of the kernel's threads that serve interrupts.
const interruptThreads = 50

// realtimeKernel reports whether the kernel is built with CONFIG_PREEMPT_RT.
func (r *reader) realtimeKernel() bool {
	realtime, _ := r.text("sys/kernel/realtime")
	version, _ := r.text("proc/sys/kernel/version")
	return realtime == "1" || strings.Contains(version, "PREEMPT_RT")
}

func (r *reader) preemption() {
	const name = "preemption"
	_, threaded := r.argument("threadirqs")
	priority := r.ktsnd.FIFOPriority
	switch {
	case !r.realtimeKernel():
		r.costs(name, "the kernel is not built with PREEMPT_RT", "soft interrupts, and sections of the kernel that hold a spinlock, delay "+
			"a wake-up, the more the busier the machine is", "run a real-time kernel: Debian linux-image-rt-amd64, RHEL kernel-rt, Ubuntu Pro realtime-kernel")
	case priority > 0 && priority <= interruptThreads:
		r.costs(name, fmt.Sprintf("PREEMPT_RT, and ktsnd has priority %d, as threads of interrupts have (%d)", priority, interruptThreads),
			"a device's interrupt that is served on ktsnd's processor goes first", fmt.Sprintf("give ktsnd --fifo %d", interruptThreads+1))
	case threaded:
		r.good(name, "PREEMPT_RT, with threadirqs, which it has anyway")
	default:
		r.good(name, "PREEMPT_RT")
	}
}

// fairServer reports whether the kernel prevents starvation by a deadline server (Linux 6.12 and later) and not by throttling.
func (r *reader) fairServer() bool {
	release, _ := r.text("proc/sys/kernel/osrelease")
	parts := strings.SplitN(release, ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, _ := strconv.Atoi(parts[0])
	minor, _ := strconv.Atoi(parts[1])
	return major > 6 || major == 6 && minor >= 12
}

// groups reports whether cgroups of version 1 divide real-time scheduling.
func (r *reader) groups() bool {
	return len(r.names("sys/fs/cgroup/cpu*/cpu.rt_runtime_us")) > 0
}

func (r *reader) throttling() {
	const name = "real-time throttling"
	runtime, known := r.number("proc/sys/kernel/sched_rt_runtime_us")
	period, _ := r.number("proc/sys/kernel/sched_rt_period_us")
	budget := fmt.Sprintf("%v of each %v", time.Duration(runtime)*time.Microsecond, time.Duration(period)*time.Microsecond)
	switch {
	case !known:
		r.good(name, "the kernel does not say")
	case runtime < 0 && !r.fairServer():
		r.good(name, "off: real-time threads are never stopped")
	case r.groups():
		r.costs(name, "the kernel divides real-time scheduling among cgroups (CONFIG_RT_GROUP_SCHED): "+budget+" for all of them together",
			"without a share ktsnd has no real-time priority; with one it rests when it has used it up",
			"chart: ktsnd.cgroupV1=true and ktsnd.realtimeShare; a kernel without that option needs neither")
	case r.fairServer():
		r.good(name, "ordinary threads run first when they had less than 50 ms of a second (fair server); ktsnd rests in gaps for it")
	default:
		r.costs(name, "the kernel stops real-time threads after "+budget, "ktsnd rests before that: nothing where messages leave gaps; else departures wait for the "+
			"end of a rest", r.advice("set sysctl kernel.sched_rt_runtime_us=-1 where ktsnd has its processor alone"))
	}
}

// coarse is the resolution above which the kernel has no high-resolution timers: the resolution is a tick then.
const coarse = time.Microsecond

func (r *reader) timers() {
	const name = "timers"
	slack, known := r.number("proc/%d/timerslack_ns", r.ktsnd.PID)
	switch {
	case r.ClockResolution > coarse:
		r.costs(name, fmt.Sprintf("have a resolution of %v", r.ClockResolution), "ktsnd wakes up late by that much",
			"boot without highres=off and nohpet, with a kernel that has CONFIG_HIGH_RES_TIMERS")
	case r.ktsnd.FIFOPriority == 0 && known && slack > 1000:
		r.costs(name, fmt.Sprintf("ktsnd has no real-time priority, so its timers may expire %v late (timer slack)", time.Duration(slack)),
			"its wake-ups come that much later", "give ktsnd SCHED_FIFO; its log says what is missing")
	default:
		r.good(name, "have a high resolution and no slack")
	}
}

func (r *reader) clockSource() {
	const name = "clock source"
	current, _ := r.text("sys/devices/system/clocksource/clocksource0/current_clocksource")
	available, _ := r.text("sys/devices/system/clocksource/clocksource0/available_clocksource")
	switch current {
	case "tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter":
		r.good(name, current+", which is read without a system call")
	case "":
		r.good(name, "the kernel does not say")
	default:
		r.costs(name, current+"; available are "+available, "each look at the clock is a system call and a slow read of a device",
			"`dmesg | grep -i tsc` says why the kernel does not take tsc; a firmware update or tsc=reliable may help")
	}
}
