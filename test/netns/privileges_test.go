// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Capabilities as bits of /proc/PID/status.
const (
	capNetAdmin = 12
	capIPCLock  = 14
	capSysAdmin = 21
)

// threadStatus are the fields of one thread that say what it may do.
func threadStatus(t *testing.T, folder string) (name string, fields map[string]string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, "status"))
	if err != nil {
		t.Fatal(err)
	}
	fields = map[string]string{}
	for line := range strings.Lines(string(content)) {
		key, value, _ := strings.Cut(line, ":")
		fields[key] = strings.TrimSpace(value)
	}
	return fields["Name"], fields
}

func capabilities(t *testing.T, field string) uint64 {
	t.Helper()
	set, err := strconv.ParseUint(field, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestRunningKtsndHasGivenUpWhatItDoesNotNeed(t *testing.T) {
	lab := newLab(t)
	daemon, _ := lab.startDaemon(t)
	folders, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", daemon.PID()))
	if err != nil || len(folders) < 2 {
		t.Fatalf("threads %v, %v", folders, err)
	}
	for _, folder := range folders {
		name, fields := threadStatus(t, folder)
		allowed := uint64(0)
		if filepath.Base(folder) == strconv.Itoa(daemon.PID()) {
			allowed = 1<<capNetAdmin | 1<<capIPCLock | 1<<capSysAdmin
		}
		for _, set := range []string{"CapEff", "CapPrm"} {
			if got := capabilities(t, fields[set]); got&^allowed != 0 {
				t.Errorf("thread %s has %s %#x, want at most %#x", name, set, got, allowed)
			}
		}
		if got := capabilities(t, fields["CapBnd"]) & (1<<22 - 1); got != 0 && name != "eal-intr-thread" {
			t.Errorf("thread %s could still get %#x", name, got)
		}
		if fields["NoNewPrivs"] != "1" || fields["Seccomp"] != "2" {
			t.Errorf("thread %s has NoNewPrivs %s, Seccomp %s; want 1 and 2", name, fields["NoNewPrivs"],
				fields["Seccomp"])
		}
	}
}
