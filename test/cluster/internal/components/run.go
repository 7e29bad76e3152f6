// SPDX-License-Identifier: Apache-2.0

package components

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// run runs a program. The kernel kills it if this process is killed.
func (b *Builder) run(ctx context.Context, dir string, environment []string, program string, arguments ...string) error {
	_, err := b.output(ctx, dir, environment, program, arguments...)
	return err
}

// output runs a program and returns its standard output.
func (b *Builder) output(ctx context.Context, dir string, environment []string, program string, arguments ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, program, arguments...)
	command.Dir = dir
	command.Env = append(os.Environ(), environment...)
	command.Stdout = &stdout
	command.Stderr = io.MultiWriter(&stderr, b.Stderr)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}
