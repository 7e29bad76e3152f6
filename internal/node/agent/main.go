// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"k8s.io/client-go/rest"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/inspect"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/privilege"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/version"
)

// Main runs the command line and returns the exit status.
func Main(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	return commandline.Exit("ktsn-agent", run(ctx, arguments, stdout, stderr), stderr)
}

func run(ctx context.Context, arguments []string, stdout, stderr io.Writer) error {
	if len(arguments) > 0 && arguments[0] == "remove" {
		return remove(ctx, arguments[1:], stdout)
	}
	if len(arguments) > 0 && arguments[0] == "clean-node" {
		return cleanNode(ctx, arguments[1:], stdout)
	}
	if len(arguments) > 0 && arguments[0] == inspectCommand {
		return inspectPrograms(arguments[1:], stdout)
	}
	options, err := Parse(arguments, stdout)
	if err != nil {
		return err
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w; the agent runs in a pod with a service account", err)
	}
	options.Version = version.Number()
	return Run(ctx, options, options.platform(), config, slog.New(slog.NewTextHandler(stderr, nil)))
}

// inspectCommand is the command by which the agent starts itself to inspect programs.
const inspectCommand = "inspect"

// inspectPrograms keeps only the capabilities for reading other users' processes.
func inspectPrograms(arguments []string, stdout io.Writer) error {
	if err := privilege.Reduce(privilege.DACReadSearch, privilege.SysPtrace); err != nil {
		return err
	}
	return inspect.Command(arguments, stdout)
}
