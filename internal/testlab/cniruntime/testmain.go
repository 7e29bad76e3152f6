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

// TestMain is TestMain of the packages whose tests make network namespaces. It runs the tests and returns the exit
// status.
//
// It gives the tests a BPF filesystem of their own, so that two runs on one machine do not meet in /sys/fs/bpf, and a killed one
// leaves nothing there: the program is executed again in a mount namespace that has the filesystem; the programs that it starts
// inherit it. A user without the right to make namespaces runs the tests without: they skip. It fails the tests if one of them puts
// the filter of tunnels into the machine's own network namespace.
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

// hasFilter returns false also where filters cannot be listed: there none can be made.
func hasFilter() bool {
	counters, err := filter.Counters()
	return err == nil && len(counters) > 0
}

// executeAgain returns only when it failed. A thread that has a mount namespace of its own becomes the whole process by exec, under
// the same number, so signals and `go test` find it.
func executeAgain() error {
	runtime.LockOSThread() // for ever
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	// What others unmount goes here as well; what is mounted here is nobody else's.
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
