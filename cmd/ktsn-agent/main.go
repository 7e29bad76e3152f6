// SPDX-License-Identifier: Apache-2.0

// Command ktsn-agent serves one node of a Kubernetes cluster; see `ktsn-agent --help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/kubernetsn/kubernetsn/internal/node/agent"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return agent.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
