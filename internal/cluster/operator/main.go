// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

// Main runs the command line and returns the exit status.
func Main(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	return commandline.Exit("ktsn-operator", run(ctx, arguments, stdout, stderr), stderr)
}

func run(ctx context.Context, arguments []string, stdout, stderr io.Writer) error {
	if len(arguments) > 0 && arguments[0] == "remove" {
		return remove(ctx, arguments[1:], stdout)
	}
	options, err := Parse(arguments, stdout)
	if err != nil {
		return err
	}
	options.Reserved = ownServices(os.Getenv("KUBERNETES_SERVICE_HOST"), "/etc/resolv.conf")
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w; the operator runs in a pod with a service account", err)
	}
	return Run(ctx, options, config, clockTAI, slog.New(slog.NewTextHandler(stderr, nil)))
}

// clockTAI returns this node's CLOCK_TAI in nanoseconds. All nodes are synchronised to it.
func clockTAI() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_TAI, &now) // cannot fail on Linux
	return now.Nano()
}
