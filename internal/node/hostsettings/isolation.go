// SPDX-License-Identifier: Apache-2.0

package hostsettings

import (
	"fmt"
	"slices"
	"strings"
)

// isolated reports whether the scheduler runs only bound threads on the candidates.
func (r *reader) isolated() bool {
	list, _ := r.text("sys/devices/system/cpu/isolated")
	return r.listed(list)
}

// onlyProcessor reports whether ktsnd's cpuset has only the processor of its sending thread.
func (r *reader) onlyProcessor() bool {
	status, _ := r.text("proc/%d/status", r.ktsnd.PID)
	online, _ := r.text("sys/devices/system/cpu/online")
	for line := range strings.Lines(status) {
		if name, list, _ := strings.Cut(line, ":"); name == "Cpus_allowed_list" {
			return slices.Equal(processors(list), []int{r.ktsnd.CPU}) && len(processors(online)) > 1
		}
	}
	return false
}

// tickless reports whether the scheduler's tick stops on the candidates while one thread runs.
func (r *reader) tickless() bool {
	list, _ := r.text("sys/devices/system/cpu/nohz_full")
	return r.listed(list)
}

// advice returns advice for a setting that requires an exclusive processor of ktsnd.
func (r *reader) advice(mend string) string {
	if r.ktsnd.CPU < 0 {
		return "give ktsnd a processor first (--cpu; chart: ktsnd.exclusiveCore), then " + mend
	}
	return mend
}

func (r *reader) isolation() {
	const name = "isolation"
	switch {
	case r.isolated():
		r.good(name, r.where()+" is isolated (isolcpus, or an isolated partition of cpusets)")
		return
	case r.onlyProcessor():
		r.costs(name, "ktsnd may run on "+r.where()+" only (cpuset), as where kubelet gave it an exclusive core: no other container runs there then",
			"services of the machine and threads of the kernel may", fmt.Sprintf("boot with isolcpus=managed_irq,domain,%s, or keep services off it "+
				"(systemd: AllowedCPUs= of system.slice and user.slice)", r.chosen()))
		return
	}
	cost := "threads of others run there while ktsnd sleeps, with cold caches for it after that, and parts of the kernel on their behalf do not yield to it"
	if r.ktsnd.FIFOPriority == 0 {
		cost = "threads of others run there, and ktsnd, which has no real-time priority, waits until the scheduler gives it its turn"
	}
	r.costs(name, r.where()+" is not isolated", cost,
		r.advice(fmt.Sprintf("boot with isolcpus=managed_irq,domain,%s, or have kubelet give it to ktsnd alone (static CPU manager policy)", r.chosen())))
}

func (r *reader) tick() {
	const name = "scheduler tick"
	list, able := r.text("sys/devices/system/cpu/nohz_full")
	switch {
	case r.tickless():
		r.good(name, r.where()+" has none while one thread runs there (nohz_full)")
	case !able:
		r.good(name, "this kernel has it on each busy processor (built without CONFIG_NO_HZ_FULL)")
	default:
		if len(processors(list)) == 0 {
			list = "none"
		}
		r.costs(name, "nohz_full has "+list, "the tick takes the awake loop's processor for some microseconds, 100 to 1000 times a second",
			r.advice("boot with nohz_full="+r.chosen()+"; each system call gets a little slower by it"))
	}
}

func (r *reader) callbacks() {
	const name = "RCU callbacks"
	list, present := r.argument("rcu_nocbs")
	switch {
	case r.tickless():
		r.good(name, "run elsewhere (nohz_full)")
	case present && (list == "all" || r.listed(list)):
		r.good(name, "run elsewhere (rcu_nocbs)")
	default:
		r.costs(name, "run on "+r.where(), "the kernel frees memory there in soft interrupts, in batches, which ktsnd waits for",
			r.advice("boot with rcu_nocbs="+r.chosen()))
	}
}

func (r *reader) siblings() {
	const name = "SMT siblings"
	var shared []string
	for _, cpu := range r.candidates() {
		list, _ := r.text("sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu)
		if len(processors(list)) > 1 && !slices.Contains(shared, list) {
			shared = append(shared, list)
		}
	}
	if len(shared) == 0 {
		r.good(name, r.where()+" shares its core with none that is online")
		return
	}
	r.costs(name, "these share a core: "+strings.Join(shared, "; "), "what the sibling computes slows down the loop",
		r.advice("turn the sibling off (/sys/devices/system/cpu/cpuN/online), boot with nosmt, or give kubelet cpuManagerPolicyOptions full-pcpus-only: \"true\""))
}
