// SPDX-License-Identifier: Apache-2.0

// Command ktsn-cluster creates a real Kubernetes cluster on this machine, for tests; see docs/contributing/test-cluster.md.
package main

import (
	"os"
	"syscall"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cli"
)

func main() {
	os.Exit(commandline.Run(cli.Main, syscall.SIGHUP))
}
