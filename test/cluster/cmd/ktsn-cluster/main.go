// SPDX-License-Identifier: Apache-2.0

// Command ktsn-cluster creates a real Kubernetes cluster on this machine, for tests; see docs/cluster.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cli"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return cli.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
