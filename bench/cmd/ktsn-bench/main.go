// SPDX-License-Identifier: Apache-2.0

// Command ktsn-bench measures KuberneTSN; `ktsn demo` and `ktsn bench` start it. See `ktsn-bench --help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/kubernetsn/kubernetsn/bench/internal/cli"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return cli.Main(ctx, os.Args, os.Stdout, os.Stderr)
}
