// SPDX-License-Identifier: Apache-2.0

package ovs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// DefaultDatabase is the database's socket in distributions' packages of Open vSwitch.
	DefaultDatabase = "unix:/run/openvswitch/db.sock"
	// DefaultRunDir is the folder of ovs-vswitchd's sockets in these packages.
	DefaultRunDir = "/run/openvswitch"
	// toolTimeout limits the wait until ovs-vswitchd has applied the database, including the start of DPDK.
	toolTimeout = 30 * time.Second
	// startTimeout limits the wait until ovs-vswitchd follows the database.
	startTimeout = 5 * time.Second
)

// Switch is the Open vSwitch of this node.
type Switch struct {
	// Database is the socket of ovsdb-server, RunDir the folder of ovs-vswitchd's sockets.
	Database, RunDir string
}

// errNotRunning means that ovs-vswitchd does not follow its database.
var errNotRunning = errors.New("ovs-vswitchd does not run, or does not follow this database; start it and see its log")

// vsctl runs ovs-vsctl and returns its output. Without --no-wait it waits for ovs-vswitchd at most for patience; its changes are
// in the database even if that fails.
func (s *Switch) vsctl(ctx context.Context, patience time.Duration, arguments ...string) ([]byte, error) {
	out, err := run(ctx, "ovs-vsctl", append([]string{"--db=" + s.Database, "--timeout=" + seconds(patience)}, arguments...))
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGALRM {
			return nil, errNotRunning
		}
		if strings.Contains(err.Error(), "database connection failed") {
			return nil, fmt.Errorf("the database of Open vSwitch does not answer at %s; start Open vSwitch, or name its socket with --db",
				s.Database)
		}
	}
	return out, err
}

// write runs ovs-vsctl with changes, if there are any, and waits until ovs-vswitchd has applied them.
func (s *Switch) write(ctx context.Context, changes []string) error {
	if len(changes) == 0 {
		return nil
	}
	_, err := s.vsctl(ctx, toolTimeout, changes...)
	return err
}

// writeAhead writes changes without waiting for ovs-vswitchd.
func (s *Switch) writeAhead(ctx context.Context, changes []string) error {
	if len(changes) == 0 {
		return nil
	}
	_, err := s.vsctl(ctx, toolTimeout, append([]string{"--no-wait"}, changes...)...)
	return err
}

// checkAlive fails if ovs-vswitchd does not follow the database. Its entries there do not show it: they stay when it ends.
func (s *Switch) checkAlive(ctx context.Context) error {
	_, err := s.vsctl(ctx, startTimeout, "set", "Open_vSwitch", ".", "external_ids:"+probe+"=1")
	_, errRemove := s.vsctl(context.WithoutCancel(ctx), startTimeout, "--no-wait", "remove", "Open_vSwitch", ".", "external_ids", probe)
	return errors.Join(err, errRemove)
}

// managementSocket returns the path of br-int's OpenFlow socket.
func (s *Switch) managementSocket() string { return filepath.Join(s.RunDir, BridgeInternal+".mgmt") }

// ofctl runs ovs-ofctl on br-int.
func (s *Switch) ofctl(ctx context.Context, command, input string, arguments ...string) ([]byte, error) {
	socket := s.managementSocket()
	if _, err := os.Stat(socket); err != nil {
		return nil, fmt.Errorf("%s is not in %s: that is not the run directory of the ovs-vswitchd that follows %s; name it with --run-dir",
			filepath.Base(socket), s.RunDir, s.Database)
	}
	all := append([]string{"--timeout=10", "--no-names", "--no-stats"}, command, "unix:"+socket)
	out, err := runWith(ctx, input, "ovs-ofctl", append(all, arguments...))
	if err != nil && strings.Contains(err.Error(), "Connection refused") { // a killed ovs-vswitchd leaves its socket
		return nil, errNotRunning
	}
	return out, err
}

func run(ctx context.Context, name string, arguments []string) ([]byte, error) {
	return runWith(ctx, "", name, arguments)
}

func runWith(ctx context.Context, input, name string, arguments []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout+5*time.Second)
	defer cancel()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, name, arguments...)
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &stdout, &stderr
	err := command.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("%s is not installed; it comes with Open vSwitch (on Debian: openvswitch-switch-dpdk)", name)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", name, ctx.Err())
	case err != nil:
		output := strings.TrimSpace(stderr.String())
		return nil, fmt.Errorf("%s: %w: %s", name, err, output)
	}
	return stdout.Bytes(), nil
}

func seconds(duration time.Duration) string {
	return strconv.Itoa(int(duration / time.Second))
}
