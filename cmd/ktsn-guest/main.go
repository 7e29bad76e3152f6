// SPDX-License-Identifier: Apache-2.0

// Command ktsn-guest is for virtual machines; see package cli.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/kubernetsn/kubernetsn/internal/guest/cli"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return cli.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
