// SPDX-License-Identifier: Apache-2.0

// Command ktsn-operator does for a Kubernetes cluster what its TSNNetworks ask for; see `ktsn-operator --help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/kubernetsn/kubernetsn/internal/cluster/operator"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return operator.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
