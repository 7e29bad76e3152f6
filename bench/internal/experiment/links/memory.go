// SPDX-License-Identifier: Apache-2.0

package links

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// kernelMemory is the memory of the machine's kernel, which other programs affect as well.
func kernelMemory() (bytes float64, err error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	fields := 0
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		if name != "Slab" && name != "Percpu" {
			continue
		}
		kilobytes, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
		if err != nil {
			return 0, fmt.Errorf("read %s of /proc/meminfo: %w", name, err)
		}
		bytes += kilobytes * 1024
		fields++
	}
	if fields != 2 {
		return 0, fmt.Errorf("/proc/meminfo has %d of Slab and Percpu", fields)
	}
	return bytes, nil
}

// residentMemory is a program's memory.
func residentMemory(pid int) (bytes float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm is %q", pid, text)
	}
	pages, err := strconv.ParseFloat(fields[1], 64)
	return pages * float64(os.Getpagesize()), err
}
