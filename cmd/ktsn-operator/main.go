// SPDX-License-Identifier: Apache-2.0

// Command ktsn-operator does for a Kubernetes cluster what its TSNNetworks ask for; see `ktsn-operator --help`.
package main

import (
	"os"

	"github.com/kubernetsn/kubernetsn/internal/cluster/operator"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

func main() {
	os.Exit(commandline.Run(operator.Main))
}
