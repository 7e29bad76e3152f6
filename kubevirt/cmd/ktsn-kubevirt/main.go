// SPDX-License-Identifier: Apache-2.0

// Command ktsn-kubevirt connects virtual machines of KubeVirt to networks; see `ktsn-kubevirt --help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/kubernetsn/kubernetsn/kubevirt/internal/sidecar"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return sidecar.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}
