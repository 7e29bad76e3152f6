// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

// The test's own program is also that of the operator and of the agents: which one is said in the environment.
const (
	roleVariable   = "KTSN_SCALE_ROLE"
	roleTest       = "test"
	roleOperator   = "operator"
	roleAgents     = "agents"
	configVariable = "KTSN_SCALE_CONFIG"
)

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); {
	case role == roleOperator:
		os.Exit(play(runOperator))
	case role == roleAgents:
		os.Exit(play(runAgents))
	case role == "" && os.Geteuid() == 0:
		os.Exit(apart())
	case role == roleTest:
		if err := arrive(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// play runs a part until a signal ends it.
func play(part func(ctx context.Context, config *partConfig) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := readPartConfig(os.Getenv(configVariable))
	if err == nil {
		err = part(ctx, config)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// apart runs the tests in namespaces of their own: of the network, because agents look at all devices, and of processes, so that
// nothing outlasts the tests.
func apart() int {
	command := exec.Command("/proc/self/exe", os.Args[1:]...)
	command.Env = append(os.Environ(), roleVariable+"="+roleTest)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	var ended *exec.ExitError
	switch err := command.Run(); {
	case errors.As(err, &ended):
		return max(ended.ExitCode(), 1)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// arrive sets the namespaces up: the loopback is all of the network that the parts need.
func arrive() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts here: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("look for lo: %w", err)
	}
	if err := netlink.LinkSetUp(loopback); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	return nil
}
