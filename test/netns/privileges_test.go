// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// Capabilities as bits of /proc/PID/status.
const (
	capNetAdmin = 12
	capIPCLock  = 14
	capSysAdmin = 21
)

// threadStatus are the fields of a thread's status about its privileges.
func threadStatus(t *testing.T, folder string) (name string, fields map[string]string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, "status"))
	must(t, err)
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
	must(t, err)
	return set
}

func TestKtsndDropsPrivileges(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, _ := lab.startDaemon(t)
	// A pod's thread drops its privileges first. The newest thread may not have run yet.
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		if excesses := threadExcesses(t, daemon.PID()); len(excesses) > 0 {
			return errors.New(strings.Join(excesses, "\n"))
		}
		return nil
	})
}

// TestKhugepagedIsKeptAway checks that the kernel does not scan ktsnd's memory for huge pages: khugepaged holds the lock of the memory
// while it waits for a processor, and has the lowest priority.
func TestKhugepagedIsKeptAway(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, _ := lab.startDaemon(t)
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		if _, fields := threadStatus(t, fmt.Sprintf("/proc/%d", daemon.PID())); fields["THP_enabled"] != "0" {
			return fmt.Errorf("THP_enabled is %q", fields["THP_enabled"])
		}
		return nil
	})
}

// threadExcesses returns the privileges of ktsnd's threads that they do not need.
func threadExcesses(t *testing.T, pid int) []string {
	t.Helper()
	folders, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(folders) < 2 {
		t.Fatalf("threads %v, %v", folders, err)
	}
	var excesses []string
	for _, folder := range folders {
		name, fields := threadStatus(t, folder)
		allowed := uint64(0)
		if filepath.Base(folder) == strconv.Itoa(pid) {
			allowed = 1<<capNetAdmin | 1<<capIPCLock | 1<<capSysAdmin
		}
		for _, set := range []string{"CapEff", "CapPrm"} {
			if got := capabilities(t, fields[set]); got&^allowed != 0 {
				excesses = append(excesses, fmt.Sprintf("thread %s has %s %#x, want at most %#x", name, set, got, allowed))
			}
		}
		if got := capabilities(t, fields["CapBnd"]) & (1<<22 - 1); got != 0 && name != "eal-intr-thread" {
			excesses = append(excesses, fmt.Sprintf("thread %s could still get %#x", name, got))
		}
		if fields["NoNewPrivs"] != "1" || fields["Seccomp"] != "2" {
			excesses = append(excesses, fmt.Sprintf("thread %s has NoNewPrivs %s, Seccomp %s; want 1 and 2", name,
				fields["NoNewPrivs"], fields["Seccomp"]))
		}
	}
	return excesses
}

// TestControlSocketIsPrivate checks the permissions of the control socket, whose writers can add and remove endpoints.
func TestControlSocketIsPrivate(t *testing.T) {
	content(t)
	lab := newLab(t)
	lab.startDaemon(t)
	info, err := os.Stat(lab.control)
	must(t, err)
	if mode := info.Mode(); mode.Type() != fs.ModeSocket || mode.Perm() != 0o600 {
		t.Errorf("the control socket has mode %v, want a socket of 0600", mode)
	}
}

// TestSocketOfOtherNamespaceIsRejected checks that a pod cannot send in the name of another network namespace with a
// socket that it received from there.
func TestSocketOfOtherNamespaceIsRejected(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	enemy := lab.addHostile(t, client)
	// From pod b, through the file system: the passed socket belongs to pod b's namespace.
	ip(t, lab.PodB, "link", "set", "lo", "up")
	asked := startAt(t, lab.PodB, enemy.socket, "foreign", netip.AddrPortFrom(topology.PodAddressA, listenPort), time.Second)
	if results := asked.results(t); results["refused"] != 1 || results["errno"] != 1 {
		t.Errorf("a socket of another network namespace: %v; want it refused with EPERM (1)", results)
	}
}
