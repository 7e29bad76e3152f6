// SPDX-License-Identifier: Apache-2.0

package cniruntime

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay/filter"
)

const (
	bpfFS = "/sys/fs/bpf"
	// ownBPFFS is set in the environment of a program that was executed again in the mount namespace.
	ownBPFFS = "KTSN_TEST_BPFFS"
)

// TestMain is TestMain for packages whose tests create network namespaces. It runs the tests and returns the exit
// status.
//
// The tests get a BPF filesystem of their own, so that two runs on one machine do not share /sys/fs/bpf, and a killed
// run leaves nothing there: the program is executed again in a mount namespace with that filesystem, which its child
// processes inherit. Without the right to create namespaces the tests run without it, and skip. TestMain fails if a
// test leaves the filter of tunnels in the machine's own network namespace.
func TestMain(m *testing.M) int {
	if os.Getenv(ownBPFFS) == "" {
		if err := executeAgain(); !errors.Is(err, unix.EPERM) {
			fmt.Fprintln(os.Stderr, fmt.Errorf("a BPF filesystem for the tests: %w", err))
			return 1
		}
	}
	filtered := hasFilter()
	status := m.Run()
	if !filtered && hasFilter() {
		fmt.Fprintf(os.Stderr, "a test left nftables table %s in the machine's own network namespace: it ran ktsn or tsn-cni outside its node\n",
			filter.Name)
		status = 1
	}
	return status
}

// hasFilter also returns false if filters cannot be listed: then none can be created either.
func hasFilter() bool {
	counters, err := filter.Counters()
	return err == nil && len(counters) > 0
}

// executeAgain returns only if it fails. A thread with its own mount namespace becomes the whole process by exec, with
// the same PID, so signals and `go test` reach it.
func executeAgain() error {
	runtime.LockOSThread() // forever
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	// Unmounts propagate into this namespace; mounts do not propagate out of it.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("keep mounts here: %w", err)
	}
	if err := unix.Mount("bpf", bpfFS, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return fmt.Errorf("mount it at %s: %w", bpfFS, err)
	}
	program, err := os.Executable() // not /proc/self/exe: the process would be called "exe"
	if err != nil {
		return err
	}
	return syscall.Exec(program, os.Args, append(os.Environ(), ownBPFFS+"=yes"))
}
