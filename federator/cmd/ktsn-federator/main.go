// SPDX-License-Identifier: Apache-2.0

// Command ktsn-federator federates clusters; see `ktsn-federator --help`.
package main

import (
	"os"

	"github.com/kubernetsn/kubernetsn/federator/internal/program"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

func main() {
	os.Exit(commandline.Run(program.Main))
}
