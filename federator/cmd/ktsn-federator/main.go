// SPDX-License-Identifier: Apache-2.0

// Command ktsn-federator federates clusters; see `ktsn-federator --help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/kubernetsn/kubernetsn/federator/internal/program"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return program.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
