// SPDX-License-Identifier: Apache-2.0

package hostsettings

import (
	"fmt"
	"path"
	"strings"
)

// choice returns the word in brackets of a file such as "always [madvise] never".
func choice(text string) string {
	_, after, _ := strings.Cut(text, "[")
	word, _, _ := strings.Cut(after, "]")
	return word
}

func (r *reader) hugePages() {
	const name = "transparent hugepages"
	text, known := r.text("sys/kernel/mm/transparent_hugepage/enabled")
	switch enabled := choice(text); {
	case !known:
		r.good(name, "the kernel has none")
	case enabled == "always":
		r.costs(name, "always", "khugepaged collects pages of running programs, which wait for it; ktsnd keeps it away from its "+
			"memory, talkers do not", "boot with transparent_hugepage=madvise; ktsnd asks for hugepages where it wants them")
	case enabled == "never":
		r.costs(name, "never", "before Linux 6.1 ktsnd's packets lie in small pages, and with thousands of messages pending each costs more look-ups of "+
			"addresses",
			"boot with transparent_hugepage=madvise")
	default:
		r.good(name, enabled+": only where a program asks, as ktsnd does")
	}
}

func (r *reader) swap() {
	const name = "swap"
	text, _ := r.text("proc/swaps")
	if lines := strings.Split(text, "\n"); len(lines) > 1 {
		r.costs(name, fmt.Sprintf("areas in use: %d", len(lines)-1), "ktsnd's memory is locked; a talker whose page was swapped out hands over its message late",
			"`swapoff -a` and no swap in /etc/fstab, or mlockall in the talkers")
		return
	}
	r.good(name, "none")
}

// nodeOf returns the NUMA node of a processor, -1 if it is unknown.
func (r *reader) nodeOf(cpu int) int {
	for _, file := range r.names("sys/devices/system/node/node[0-9]*/cpulist") {
		list, _ := r.text("%s", file)
		for _, processor := range processors(list) {
			if node := -1; processor == cpu {
				if _, err := fmt.Sscanf(path.Base(path.Dir(file)), "node%d", &node); err == nil {
					return node
				}
			}
		}
	}
	return -1
}

// severalNodes reports whether the machine has several NUMA nodes.
func (r *reader) severalNodes() bool {
	return len(r.names("sys/devices/system/node/node[0-9]*/cpulist")) > 1
}

func (r *reader) numaBalancing() {
	const name = "NUMA balancing"
	if on, _ := r.number("proc/sys/kernel/numa_balancing"); on > 0 && r.severalNodes() {
		r.costs(name, "on", "the kernel takes pages out of programs' tables to see who uses them: the next access of each is a page fault",
			"set sysctl kernel.numa_balancing=0")
		return
	}
	r.good(name, "off, or the machine has one node")
}
