// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// prefix begins the name of every namespace and directory of this package.
const prefix = "ktsn-"

// ID identifies a topology by its process. The start time distinguishes processes with the same PID; the serial
// distinguishes topologies of one process.
type ID struct {
	PID int
	// StartTicks is when the process started, in clock ticks since boot.
	StartTicks uint64
	Serial     uint32
}

var lastSerial atomic.Uint32

// NewID returns an ID that no other topology on this machine has.
func NewID() (ID, error) {
	pid := os.Getpid()
	ticks, err := startTicks(pid)
	if err != nil {
		return ID{}, fmt.Errorf("name topology: %w", err)
	}
	return ID{PID: pid, StartTicks: ticks, Serial: lastSerial.Add(1)}, nil
}

// String returns the ID as it appears in names.
func (id ID) String() string {
	return fmt.Sprintf("%s%x-%x-%x", prefix, id.PID, id.StartTicks, id.Serial)
}

// namespace returns the name of the namespace with a role.
func (id ID) namespace(role string) string {
	return id.String() + "-" + role
}

// alive reports whether the process of the ID still runs.
func (id ID) alive() bool {
	ticks, err := startTicks(id.PID)
	return err == nil && ticks == id.StartTicks
}

// parseID reads the ID at the start of a name, which a role may follow.
func parseID(name string) (ID, bool) {
	rest, hasPrefix := strings.CutPrefix(name, prefix)
	if !hasPrefix {
		return ID{}, false
	}
	parts := strings.SplitN(rest, "-", 4)
	if len(parts) < 3 {
		return ID{}, false
	}
	pid, errPID := strconv.ParseUint(parts[0], 16, 31)
	ticks, errTicks := strconv.ParseUint(parts[1], 16, 64)
	serial, errSerial := strconv.ParseUint(parts[2], 16, 32)
	id := ID{PID: int(pid), StartTicks: ticks, Serial: uint32(serial)}
	if errPID != nil || errTicks != nil || errSerial != nil || !strings.HasPrefix(name, id.String()) {
		return ID{}, false
	}
	return id, true
}

// startTicks reads when a process started: field 22 of /proc/PID/stat, counted after the command name, which can
// contain any characters.
func startTicks(pid int) (uint64, error) {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	stat, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const startTime = 22 - 3 // the first field after the name is number 3
	if len(fields) <= startTime {
		return 0, fmt.Errorf("%s: no start time in %q", path, stat)
	}
	return strconv.ParseUint(fields[startTime], 10, 64)
}
