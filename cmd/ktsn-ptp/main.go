// SPDX-License-Identifier: Apache-2.0

// Command ktsn-ptp keeps a node's clock by PTP; see `ktsn-ptp --help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/kubernetsn/kubernetsn/internal/node/ptp"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return ptp.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
