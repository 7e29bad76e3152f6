// SPDX-License-Identifier: Apache-2.0

// Package bpffs gives the tests of a package a BPF filesystem of their own, so that two runs on one machine do not meet in
// /sys/fs/bpf, and a killed one leaves nothing there.
package bpffs

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	path = "/sys/fs/bpf"
	// mounted is in the environment of a program that began anew in the mount namespace.
	mounted = "KTSN_TEST_BPFFS"
)

// Main is TestMain of such a package. The program begins anew in a mount namespace that has the filesystem; what it starts is in
// it, too. A user who may make no namespaces runs the tests without: they skip.
func Main(m *testing.M) {
	if os.Getenv(mounted) == "" {
		if err := beginAnew(); !errors.Is(err, unix.EPERM) {
			fmt.Fprintln(os.Stderr, fmt.Errorf("a BPF filesystem for the tests: %w", err))
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// beginAnew returns only when it failed. A thread that has a mount namespace of its own becomes the whole process by exec, under
// the same number, so signals and `go test` find it.
func beginAnew() error {
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
