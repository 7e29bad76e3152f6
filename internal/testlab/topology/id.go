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

// prefix opens the name of every namespace and directory this package makes.
const prefix = "ktsn-"

// ID names one topology after the process that made it. The start time tells that process from a later one
// that got the same number; the serial tells its topologies apart.
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

// String is how the ID appears in names.
func (id ID) String() string {
	return fmt.Sprintf("%s%x-%x-%x", prefix, id.PID, id.StartTicks, id.Serial)
}

// namespace is the name of the namespace that plays role in this topology.
func (id ID) namespace(role string) string {
	return id.String() + "-" + role
}

// alive tells whether the process that the ID names still runs.
func (id ID) alive() bool {
	ticks, err := startTicks(id.PID)
	return err == nil && ticks == id.StartTicks
}

// parseID reads the ID at the start of a name; what follows it must be nothing or a role.
func parseID(name string) (ID, bool) {
	rest, found := strings.CutPrefix(name, prefix)
	if !found {
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

// startTicks reads when a process started: field 22 of /proc/PID/stat, counted behind the command name,
// which may itself contain anything.
func startTicks(pid int) (uint64, error) {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	stat, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const startTime = 22 - 3 // the first field behind the name is number 3
	if len(fields) <= startTime {
		return 0, fmt.Errorf("%s: no start time in %q", path, stat)
	}
	return strconv.ParseUint(fields[startTime], 10, 64)
}
