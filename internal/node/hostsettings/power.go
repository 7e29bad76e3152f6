// SPDX-License-Identifier: Apache-2.0

package hostsettings

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// latencyUs is the exit latency up to which a power state costs nothing: the loop needs this time to wake up anyway.
const latencyUs = 2

// idleState is a power state.
type idleState struct {
	name      string
	latencyUs int64
}

// deepest returns the enabled power state with the longest exit latency, false if the kernel has none.
func (r *reader) deepest() (deepest idleState, known bool) {
	for _, cpu := range r.candidates() {
		for _, file := range r.names(fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpuidle/state[0-9]*/latency", cpu)) {
			latency, _ := r.number("%s", file)
			disabled, _ := r.number("%s", path.Join(path.Dir(file), "disable"))
			if disabled == 0 && (!known || latency > deepest.latencyUs) {
				deepest.latencyUs, known = latency, true
				deepest.name, _ = r.text("%s", path.Join(path.Dir(file), "name"))
			}
		}
	}
	return deepest, known
}

func (r *reader) powerStates() {
	const name = "power states"
	driver, _ := r.text("sys/devices/system/cpu/cpuidle/current_driver")
	governor, _ := r.text("sys/devices/system/cpu/cpuidle/current_governor")
	state, known := r.deepest()
	awake := "have ktsnd keep its processor awake: --keep-awake with --cpu (chart: ktsnd.extraArgs)"
	polls, _ := r.argument("idle")
	switch {
	case r.ktsnd.KeepsAwake:
		r.good(name, "ktsnd keeps "+r.where()+" awake")
	case polls == "poll":
		r.good(name, "no processor sleeps (idle=poll)")
	case r.isVirtual:
		r.costs(name, "the host decides how deep an idle virtual processor sleeps", "the first message after a gap waits until the host runs the processor again",
			awake)
	case !known:
		r.good(name, "the kernel has no driver for power states (cpuidle)")
	case state.latencyUs <= latencyUs:
		r.good(name, fmt.Sprintf("none on %s takes longer than %d µs to leave (%s)", r.where(), latencyUs, driver))
	default:
		r.costs(name, fmt.Sprintf("down to %s on %s, by driver %s and governor %s", state.name, r.where(), driver, governor),
			fmt.Sprintf("a wake-up takes up to %d µs longer, and ktsnd has to be awake for longer before each departure", state.latencyUs), awake)
	}
}

// frequencies describes the lowest and highest frequency, "" if they are unknown.
func (r *reader) frequencies() string {
	cpu := max(r.ktsnd.CPU, 0)
	low, known := r.number("sys/devices/system/cpu/cpu%d/cpufreq/scaling_min_freq", cpu)
	high, knownToo := r.number("sys/devices/system/cpu/cpu%d/cpufreq/scaling_max_freq", cpu)
	if !known || !knownToo {
		return ""
	}
	return fmt.Sprintf(" (from %d MHz, up to %d)", low/1000, high/1000)
}

func (r *reader) frequency() {
	const name = "frequency"
	var slow []string
	known := false
	for _, cpu := range r.candidates() {
		governor, ok := r.text("sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", cpu)
		known = known || ok
		if ok && governor != "performance" && !slices.Contains(slow, governor) {
			slow = append(slow, governor)
		}
	}
	switch {
	case !known && r.isVirtual:
		r.good(name, "the host decides; set the governor there")
	case !known:
		r.good(name, "the kernel does not change it (no cpufreq)")
	case len(slow) == 0:
		r.good(name, "governor performance on "+r.where())
	default:
		r.costs(name, fmt.Sprintf("governor %s on %s", strings.Join(slow, ", "), r.where()),
			"after a gap the loop begins at a low frequency"+r.frequencies()+", and what it does before a departure takes that much longer",
			"`cpupower frequency-set -g performance`, or a tuned profile such as latency-performance")
	}
}
