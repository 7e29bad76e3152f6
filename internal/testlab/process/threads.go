// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Threads says what each thread of the program does, a line each: of one that does not end, where the kernel holds it
// up. A single thread of state Z is a program that has ended and that nobody has waited for. "" once it has been.
func (p *Process) Threads() string {
	select {
	case <-p.done:
		return ""
	default:
		return threads(p.PID())
	}
}

func threads(pid int) string {
	folders, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid)) // fails only for a bad pattern
	var all strings.Builder
	for _, folder := range folders {
		fmt.Fprintf(&all, "%s %s, state %s, in %s: %s\n", filepath.Base(folder), shown(folder, "comm"), state(shown(folder, "stat")),
			shown(folder, "wchan"), strings.Join(strings.Split(shown(folder, "stack"), "\n"), " "))
	}
	return all.String()
}

// shown is what a file of a thread says. It may have ended meanwhile, and a stack is for root.
func shown(folder, name string) string {
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(text))
}

// state is the first field behind the name, which is in brackets and may have any characters.
func state(stat string) string {
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) == 0 {
		return "?"
	}
	return fields[0]
}
