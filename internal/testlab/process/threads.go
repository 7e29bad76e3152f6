// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Threads returns the state of each thread of the program, a line each, with the kernel stack of threads that do not
// end. A single thread in state Z is a program that has ended and was not waited for. It returns "" for a program that
// was waited for.
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
		fmt.Fprintf(&all, "%s %s, state %s, in %s: %s\n", filepath.Base(folder), readField(folder, "comm"), state(readField(folder, "stat")),
			readField(folder, "wchan"), strings.Join(strings.Split(readField(folder, "stack"), "\n"), " "))
	}
	return all.String()
}

// readField returns the content of a file of a thread. The thread may have ended, and a stack is readable by root only.
func readField(folder, name string) string {
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(text))
}

// state returns the first field after the name, which is in parentheses and can contain any characters.
func state(stat string) string {
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) == 0 {
		return "?"
	}
	return fields[0]
}
