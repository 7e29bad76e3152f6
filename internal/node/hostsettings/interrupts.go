// SPDX-License-Identifier: Apache-2.0

package hostsettings

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// maxNamedInterrupts limits how many interrupts a report names.
const maxNamedInterrupts = 3

// interrupt is an interrupt that a processor of ktsnd may serve.
type interrupt struct {
	number, actions string
	// count is the number that the processor served since the start of the machine.
	count int64
}

func (i interrupt) String() string {
	return fmt.Sprintf("%s %s (%d so far)", i.number, i.actions, i.count)
}

// interruptsOn returns the interrupts of devices that a processor may serve, the most frequent first.
func (r *reader) interruptsOn(cpu int) []interrupt {
	var all []interrupt
	for _, folder := range r.names("sys/kernel/irq/[0-9]*") {
		actions, _ := r.text("%s/actions", folder)
		number := path.Base(folder)
		affinity, known := r.text("proc/irq/%s/effective_affinity_list", number)
		if !known || affinity == "" {
			affinity, _ = r.text("proc/irq/%s/smp_affinity_list", number)
		}
		if actions == "" || !slices.Contains(processors(affinity), cpu) {
			continue
		}
		counts, _ := r.text("%s/per_cpu_count", folder)
		served := interrupt{number: number, actions: actions}
		if each := strings.Split(counts, ","); cpu < len(each) {
			served.count, _ = strconv.ParseInt(each[cpu], 10, 64)
		}
		all = append(all, served)
	}
	slices.SortStableFunc(all, func(a, b interrupt) int { return cmp.Compare(b.count, a.count) })
	return all
}

func (r *reader) interrupts() {
	const name = "interrupts"
	const cost = "each takes the processor for microseconds, whatever ktsnd's priority, and may come just before a departure"
	if r.ktsnd.CPU < 0 {
		r.costs(name, "ktsnd has no processor of its own, so any interrupt may come in between", cost,
			"give ktsnd a processor (--cpu; chart: ktsnd.exclusiveCore), and keep interrupts off it")
		return
	}
	all := r.interruptsOn(r.ktsnd.CPU)
	if len(all) == 0 {
		r.good(name, "no device's comes to "+r.where())
		return
	}
	named := make([]string, 0, maxNamedInterrupts)
	for _, served := range all[:min(maxNamedInterrupts, len(all))] {
		named = append(named, served.String())
	}
	state := fmt.Sprintf("%s serves %d of devices: %s", r.where(), len(all), strings.Join(named, ", "))
	if len(all) > maxNamedInterrupts {
		state += ", …"
	}
	r.costs(name, state, cost,
		fmt.Sprintf("write other processors into /proc/irq/NUMBER/smp_affinity_list; boot with irqaffinity=, and with isolcpus=managed_irq,domain,%s for those of "+
			"queues that the kernel places itself", r.chosen()))
}

// seesProcesses reports whether /proc has the machine's processes and not those of a container: there process 2 is kthreadd.
func (r *reader) seesProcesses() bool {
	comm, _ := r.text("proc/2/comm")
	return comm == "kthreadd"
}

func (r *reader) irqbalance() {
	const name = "irqbalance"
	runs := slices.ContainsFunc(r.names("proc/[0-9]*/comm"), func(file string) bool {
		comm, _ := r.text("%s", file)
		return comm == "irqbalance"
	})
	switch {
	case !runs && !r.seesProcesses():
		r.good(name, "cannot be seen from a container; `systemctl is-active irqbalance` on the node tells")
	case !runs:
		r.good(name, "does not run")
	case r.isolated() || r.tickless():
		r.good(name, "runs, and leaves isolated processors alone")
	default:
		r.costs(name, "runs, and may move interrupts to "+r.where()+" at any time", "interrupts that were moved away come back",
			"set IRQBALANCE_BANNED_CPULIST="+r.chosen()+" in its settings, or isolate the processor")
	}
}
