// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

// Main runs the program and returns the exit status.
func Main(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	return commandline.Exit("ktsn-federator", run(ctx, arguments, stdout, stderr), stderr)
}

func run(ctx context.Context, arguments []string, stdout, stderr io.Writer) error {
	options, err := Parse(arguments, stdout)
	if err != nil {
		return err
	}
	config, err := connection(options.Kubeconfig)
	if err != nil {
		return err
	}
	return Run(ctx, options, config, slog.New(slog.NewTextHandler(stderr, nil)))
}

// connection returns the configuration to reach the hub.
func connection(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("find the hub: %w; give --kubeconfig, or run in a pod of the hub", err)
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("find the hub: %w", err)
	}
	return config, nil
}
