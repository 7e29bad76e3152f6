// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Start switches the node on. WriteRoot and WriteSpec must have written its files.
func Start(ctx context.Context, place Place) error {
	// Read runc's errors from its log: its standard error stays open in the node.
	log := filepath.Join(place.Dir, "runc.log")
	command := runc(ctx, place, "--log", log, "run", "--detach", "--bundle", place.Dir, place.Host)
	output, err := os.OpenFile(filepath.Join(place.Dir, "console.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", place.Host, err)
	}
	defer output.Close()
	command.Stdout, command.Stderr = output, output
	if err := command.Run(); err != nil {
		logged, _ := os.ReadFile(log) // better an error without a reason than none
		return fmt.Errorf("start %s: runc: %w: %s", place.Host, err, lastLine(logged))
	}
	return nil
}

func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// Delete switches the node off by killing its processes. It is not an error if there are none.
func Delete(ctx context.Context, place Place) error {
	if _, err := os.Stat(filepath.Join(place.Runc, place.Host)); err != nil {
		return nil //nolint:nilerr // runc does not know it; its cgroup shows whether anything runs
	}
	command := runc(ctx, place, "delete", "--force", place.Host)
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("stop %s: runc: %w: %s", place.Host, err, bytes.TrimSpace(output))
	}
	return nil
}

// Status returns runc's status of the node, such as "running", or "off".
func Status(ctx context.Context, place Place) string {
	text, err := runc(ctx, place, "state", place.Host).Output()
	var state struct {
		Status string `json:"status"`
	}
	if err != nil || json.Unmarshal(text, &state) != nil {
		return "off"
	}
	return state.Status
}

// Exec runs a command on the node.
func Exec(ctx context.Context, place Place, stdin io.Reader, stdout, stderr io.Writer, command ...string) error {
	c := runc(ctx, place, append([]string{"exec", place.Host}, command...)...)
	c.Stdin, c.Stdout, c.Stderr = stdin, stdout, stderr
	return c.Run()
}

// Output runs a command on the node and returns its standard output.
func Output(ctx context.Context, place Place, stdin io.Reader, command ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	err := Exec(ctx, place, stdin, &stdout, &stderr, command...)
	if err != nil {
		return "", fmt.Errorf("%s on %s: %w: %s", command[0], place.Host, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// runc must not outlive this program half-way through its work.
func runc(ctx context.Context, place Place, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "runc", append([]string{"--root", place.Runc}, arguments...)...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command
}
