// SPDX-License-Identifier: Apache-2.0

// Package masters finds the programs of a machine that set its CLOCK_REALTIME, among all its processes: a clock has one master.
package masters

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Master is a process that sets CLOCK_REALTIME.
type Master struct {
	Program string
	PID     int
	// Unread is the configuration that would say whether it does, and cannot be read; empty: it does set the clock.
	Unread string
}

// String names the process, and what is not known of it.
func (m Master) String() string {
	if m.Unread != "" {
		return fmt.Sprintf("%s (process %d), whose configuration %s cannot be read,", m.Program, m.PID, m.Unread)
	}
	return fmt.Sprintf("%s (process %d)", m.Program, m.PID)
}

// Find looks through the processes in proc, such as /proc. A process that ends meanwhile is passed over. One whose configuration would
// say whether it sets the clock, and cannot be read, is among them: nobody can say that it does not. Reading it takes CAP_SYS_PTRACE.
func Find(proc string) ([]Master, error) {
	folder, err := os.Open(proc)
	if err != nil {
		return nil, fmt.Errorf("look for programs that set the clock: %w", err)
	}
	defer folder.Close()
	entries, err := folder.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("look for programs that set the clock: %w", err)
	}
	var masters []Master
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry)
		if err != nil {
			continue
		}
		if name, result := inspect(filepath.Join(proc, entry)); result.sets || result.unread != "" {
			masters = append(masters, Master{name, pid, result.unread})
		}
	}
	slices.SortFunc(masters, func(a, b Master) int { return a.PID - b.PID })
	return withoutHelpers(proc, masters), nil
}

// inspect reports whether a process sets the clock.
func inspect(process string) (name string, result verdict) {
	comm := strings.TrimSuffix(contents(filepath.Join(process, "comm")), "\n")
	check, known := programs[comm]
	if !known || !maySet(process) {
		return "", verdict{}
	}
	arguments := strings.Split(strings.TrimSuffix(contents(filepath.Join(process, "cmdline")), "\x00"), "\x00")
	if full, cut := names[comm]; cut {
		comm = full
	}
	result = check(arguments[1:], func(path string) (string, bool) { // as the process sees it
		if !filepath.IsAbs(path) {
			return readable(filepath.Join(process, "cwd", path))
		}
		return readable(filepath.Join(process, "root", path))
	})
	if result.unread != "" && !maySet(process) { // it has ended, and left no file to read
		return "", verdict{}
	}
	return comm, result
}

// maySet reports whether a process may set the clock, because any pod can call its program chronyd: it has CAP_SYS_TIME, and not in a
// user namespace with mapped users.
func maySet(process string) bool {
	const unmapped, everybody = "0", "4294967295"
	if fields := strings.Fields(contents(filepath.Join(process, "uid_map"))); !slices.Equal(fields, []string{unmapped, unmapped, everybody}) {
		return false
	}
	for line := range strings.Lines(contents(filepath.Join(process, "status"))) {
		if value, ok := strings.CutPrefix(line, "CapEff:"); ok {
			capabilities, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			return err == nil && capabilities&(1<<unix.CAP_SYS_TIME) != 0
		}
	}
	return false
}

// withoutHelpers drops processes whose parent is one of the same program: chronyd has a helper that sets nothing.
func withoutHelpers(proc string, masters []Master) []Master {
	return slices.DeleteFunc(slices.Clone(masters), func(master Master) bool {
		parent := parentOf(contents(filepath.Join(proc, strconv.Itoa(master.PID), "stat")))
		return slices.ContainsFunc(masters, func(other Master) bool { return other.Program == master.Program && other.PID == parent })
	})
}

// parentOf reads the second field behind a process's name, which may hold spaces and brackets.
func parentOf(stat string) int {
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}

// mostOfFile bounds what is read of another process's files.
const mostOfFile = 64 << 10

// contents of a regular file, as far as they can be read.
func contents(path string) string {
	text, _ := readable(path)
	return text
}

// readable is a regular file's text: what a process has under the name of its configuration may also be a pipe.
func readable(path string) (text string, whole bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", false
	}
	defer file.Close()
	data := make([]byte, mostOfFile)
	read := 0
	for read < len(data) {
		n, err := file.Read(data[read:])
		read += n
		if err != nil {
			return string(data[:read]), errors.Is(err, io.EOF)
		}
	}
	return string(data), false
}
