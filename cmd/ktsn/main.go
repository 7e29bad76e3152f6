// SPDX-License-Identifier: Apache-2.0

// Command ktsn shows and uses KuberneTSN on one machine; see `ktsn --help`.
package main

import (
	"os"
	"syscall"

	"github.com/kubernetsn/kubernetsn/internal/cli"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

func main() {
	os.Exit(commandline.Run(cli.Main, syscall.SIGHUP))
}
