// SPDX-License-Identifier: Apache-2.0

// Command ktsn-guest is for virtual machines; see package cli.
package main

import (
	"os"
	"syscall"

	"github.com/kubernetsn/kubernetsn/internal/guest/cli"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

func main() {
	os.Exit(commandline.Run(cli.Main, syscall.SIGHUP))
}
