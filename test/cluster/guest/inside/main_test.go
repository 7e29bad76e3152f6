// SPDX-License-Identifier: Apache-2.0

//go:build guest

package inside

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience bounds everything that takes seconds in the machine while its host is idle.
const patience = 10 * time.Minute

// outDir is the folder that the host keeps.
var outDir = os.Getenv("KTSN_GUEST")

func TestMain(m *testing.M) {
	if outDir == "" {
		fmt.Fprintln(os.Stderr, "these tests change the machine that they run on; `make e2e` runs them in a virtual one")
		os.Exit(1)
	}
	if err := setUp(); err != nil {
		fmt.Fprintln(os.Stderr, "set the node up:", err)
		os.Exit(1)
	}
	status := m.Run()
	_ = run("cp", "-r", "/var/log/pods", outDir) // for whoever looks into a failure
	os.Exit(status)
}

// setUp creates the node: an uplink, the runtime with its network and images, and then kubelet. kubelet starts last:
// while images are imported it may take one of their mounts for the root file system, and exits. setUp prints when each
// step was done, in seconds since boot.
func setUp() error {
	for _, step := range []struct {
		done string
		do   func() error
	}{
		{"the uplink is there", makeUplink},
		{"files are written", writeFiles},
		{"the runtime answers", startRuntime},
		{"images are imported", importImages},
		{"kubelet is started", startKubelet},
	} {
		if err := step.do(); err != nil {
			return err
		}
		uptime, err := os.ReadFile("/proc/uptime")
		if err != nil {
			return err
		}
		fmt.Printf("%s s: %s\n", strings.Fields(string(uptime))[0], step.done)
	}
	return nil
}

// run runs a command that prints nothing on success.
func run(arguments ...string) error {
	_, err := output(arguments...)
	return err
}

func output(arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	text, err := command.Output()
	if err != nil {
		stderr := ""
		if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // it is not wrapped
			stderr = strings.TrimSpace(string(exit.Stderr))
		}
		return string(text), fmt.Errorf("%s: %w: %s", strings.Join(arguments, " "), err, stderr)
	}
	return string(text), nil
}

// background runs a program until the machine ends, with a log that the host keeps.
func background(name string, arguments ...string) error {
	log, err := os.Create(filepath.Join(outDir, name+".log"))
	if err != nil {
		return err
	}
	command := exec.Command(arguments[0], arguments[1:]...)
	command.Stdout, command.Stderr = log, log
	return command.Start()
}

// eventually repeats try until it succeeds, for up to patience.
func eventually(try func() error) error {
	var err error
	for began := time.Now(); time.Since(began) < patience; time.Sleep(200 * time.Millisecond) {
		if err = try(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("after %v: %w", patience, err)
}

func binary(name string) string { return filepath.Join(os.Getenv("KTSN_BIN_DIR"), name) }
