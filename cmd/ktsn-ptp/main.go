// SPDX-License-Identifier: Apache-2.0

// Command ktsn-ptp keeps a node's clock by PTP; see `ktsn-ptp --help`.
package main

import (
	"os"

	"github.com/kubernetsn/kubernetsn/internal/node/ptp"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

func main() {
	os.Exit(commandline.Run(ptp.Main))
}
