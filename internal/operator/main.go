// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
)

// Exit statuses.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// Main does what the command line says and returns the exit status.
func Main(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	err := run(ctx, arguments, stdout, stderr)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, ErrUsage):
		fmt.Fprintf(stderr, "ktsn-operator: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "ktsn-operator: %v\n", err)
	return exitFailure
}

func run(ctx context.Context, arguments []string, stdout, stderr io.Writer) error {
	if len(arguments) > 0 && arguments[0] == "remove" {
		return remove(ctx, arguments[1:], stdout)
	}
	options, err := Parse(arguments, stdout)
	if err != nil {
		return err
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w; the operator runs in a pod with a service account", err)
	}
	return Run(ctx, options, config, clockTAI, slog.New(slog.NewTextHandler(stderr, nil)))
}

// clockTAI is the time in nanoseconds by this node's clock, which is that of the others.
func clockTAI() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_TAI, &now) // which each Linux has
	return now.Nano()
}
