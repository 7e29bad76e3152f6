// SPDX-License-Identifier: Apache-2.0

// Package testmain is TestMain of the packages whose tests make network namespaces.
//
// It gives the tests a BPF filesystem of their own, so that two runs on one machine do not meet in /sys/fs/bpf, and a killed one
// leaves nothing there. It fails the tests if one of them puts the filter of tunnels into the machine's own network namespace.
package testmain

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
	path = "/sys/fs/bpf"
	// mounted is in the environment of a program that was executed again in the mount namespace.
	mounted = "KTSN_TEST_BPFFS"
)

// Main runs the tests and ends the program. The program is executed again in a mount namespace that has the filesystem; what it starts
// is in it, too. A user without the right to make namespaces runs the tests without: they skip.
func Main(m *testing.M) {
	if os.Getenv(mounted) == "" {
		if err := executeAgain(); !errors.Is(err, unix.EPERM) {
			fmt.Fprintln(os.Stderr, fmt.Errorf("a BPF filesystem for the tests: %w", err))
			os.Exit(1)
		}
	}
	filtered := hasFilter()
	status := m.Run()
	if !filtered && hasFilter() {
		fmt.Fprintf(os.Stderr, "a test left nftables table %s in the machine's own network namespace: it ran ktsn or tsn-cni outside its node\n",
			filter.Name)
		status = 1
	}
	os.Exit(status)
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
	if err := unix.Mount("bpf", path, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return fmt.Errorf("mount it at %s: %w", path, err)
	}
	program, err := os.Executable() // not /proc/self/exe: the process would be called "exe"
	if err != nil {
		return err
	}
	return syscall.Exec(program, os.Args, append(os.Environ(), mounted+"=yes"))
}
