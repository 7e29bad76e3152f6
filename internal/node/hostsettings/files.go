// SPDX-License-Identifier: Apache-2.0

package hostsettings

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Patterns match all files that are read, except those of ktsnd's process; INTERFACE stands for the uplink.
var Patterns = []string{
	"proc/cmdline", "proc/sys/kernel/version", "proc/cpuinfo", "proc/stat", "proc/swaps", "proc/2/comm", "proc/[0-9]*/comm",
	"proc/irq/[0-9]*/effective_affinity_list", "proc/irq/[0-9]*/smp_affinity_list",
	"proc/sys/kernel/sched_rt_runtime_us", "proc/sys/kernel/sched_rt_period_us", "proc/sys/kernel/osrelease", "proc/sys/kernel/numa_balancing",
	"sys/kernel/irq/[0-9]*/actions", "sys/kernel/irq/[0-9]*/per_cpu_count",
	"sys/kernel/realtime", "sys/kernel/mm/transparent_hugepage/enabled",
	"sys/fs/cgroup/cpu/cpu.rt_runtime_us", "sys/fs/cgroup/cpu,cpuacct/cpu.rt_runtime_us",
	"sys/devices/system/cpu/online", "sys/devices/system/cpu/isolated", "sys/devices/system/cpu/nohz_full",
	"sys/devices/system/cpu/cpuidle/current_driver", "sys/devices/system/cpu/cpuidle/current_governor",
	"sys/devices/system/cpu/cpu[0-9]*/cpuidle/state[0-9]*/name", "sys/devices/system/cpu/cpu[0-9]*/cpuidle/state[0-9]*/latency",
	"sys/devices/system/cpu/cpu[0-9]*/cpuidle/state[0-9]*/disable",
	"sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor", "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_min_freq",
	"sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_max_freq",
	"sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list",
	"sys/devices/system/node/node[0-9]*/cpulist",
	"sys/devices/system/clocksource/clocksource0/current_clocksource", "sys/devices/system/clocksource/clocksource0/available_clocksource",
	"sys/class/net/INTERFACE/device/numa_node", "sys/class/net/INTERFACE/speed",
	"sys/class/net/INTERFACE/device/uevent",
}

// text returns the content of a file without surrounding white space, false if it cannot be read.
func (m *Machine) text(format string, arguments ...any) (string, bool) {
	content, err := fs.ReadFile(m.Files, fmt.Sprintf(format, arguments...))
	return strings.TrimSpace(string(content)), err == nil
}

func (m *Machine) number(format string, arguments ...any) (int64, bool) {
	text, _ := m.text(format, arguments...)
	number, err := strconv.ParseInt(text, 10, 64)
	return number, err == nil
}

// names returns the files that match a pattern.
func (m *Machine) names(pattern string) []string {
	names, err := fs.Glob(m.Files, pattern)
	if err != nil {
		panic(err) // a pattern of this package
	}
	return names
}

// Arguments are the arguments of the kernel's command line that are read.
var Arguments = []string{"idle", "rcu_nocbs", "threadirqs"}

// argument returns the value of one of Arguments, false if it is missing.
func (m *Machine) argument(name string) (string, bool) {
	line, _ := m.text("proc/cmdline")
	value, present := "", false
	for word := range strings.FieldsSeq(line) {
		if key, after, _ := strings.Cut(word, "="); key == name {
			value, present = after, true
		}
	}
	return value, present
}

// processors parses a list such as "0,2-3". It skips other words, such as "managed_irq" of isolcpus or "(null)".
func processors(list string) []int {
	var all []int
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if isRange && err == nil {
			last, err = strconv.Atoi(to)
		}
		for cpu := first; err == nil && cpu <= last; cpu++ {
			all = append(all, cpu)
		}
	}
	return all
}

// candidates returns the processors on which ktsnd may send: its own, or all that are online.
func (r *reader) candidates() []int {
	if r.ktsnd.CPU >= 0 {
		return []int{r.ktsnd.CPU}
	}
	online, _ := r.text("sys/devices/system/cpu/online")
	return processors(online)
}

// listed reports whether a list of processors has all candidates.
func (r *reader) listed(list string) bool {
	all := processors(list)
	return len(all) > 0 && !slices.ContainsFunc(r.candidates(), func(cpu int) bool { return !slices.Contains(all, cpu) })
}

// where describes the candidates.
func (r *reader) where() string {
	if r.ktsnd.CPU >= 0 {
		return fmt.Sprintf("processor %d", r.ktsnd.CPU)
	}
	return "any processor"
}

// chosen returns a processor for commands in advice.
func (r *reader) chosen() string {
	if r.ktsnd.CPU >= 0 {
		return strconv.Itoa(r.ktsnd.CPU)
	}
	return "CPU"
}
