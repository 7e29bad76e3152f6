// SPDX-License-Identifier: Apache-2.0

package hostsettings

import (
	"fmt"
	"strconv"
	"strings"
)

// virtual reports whether this is a virtual machine.
func (m *Machine) virtual() bool {
	info, _ := m.text("proc/cpuinfo")
	for line := range strings.Lines(info) {
		if name, flags, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "flags" {
			return strings.Contains(flags+" ", " hypervisor ") || strings.HasSuffix(strings.TrimSpace(flags), " hypervisor")
		}
	}
	return false
}

// stolen returns the share of time since the start of the machine in which programs waited for the host (steal).
func (r *reader) stolen() (share float64, known bool) {
	line := "cpu"
	if r.ktsnd.CPU >= 0 {
		line += strconv.Itoa(r.ktsnd.CPU)
	}
	text, _ := r.text("proc/stat")
	for entry := range strings.Lines(text) {
		fields := strings.Fields(entry)
		if len(fields) < 9 || fields[0] != line {
			continue
		}
		var total, steal float64
		for i, field := range fields[1:9] {
			ticks, _ := strconv.ParseFloat(field, 64)
			total += ticks
			if i == 7 {
				steal = ticks
			}
		}
		return steal / max(total, 1), true
	}
	return 0, false
}

func (r *reader) virtualMachine() {
	const name = "virtual machine"
	if !r.isVirtual {
		r.good(name, "no")
		return
	}
	state := "yes"
	if share, known := r.stolen(); known {
		state = fmt.Sprintf("yes; the host had %.2f%% of the time of %s while a program wanted it (steal)", 100*share, r.where())
	}
	r.costs(name, state, "the host may take the processor at any time, also just before a departure, and nothing in the guest prevents it",
		"have the host pin each virtual processor to one of its own, with nothing else on it")
}
