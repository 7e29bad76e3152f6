// SPDX-License-Identifier: Apache-2.0

// Command ktsn-agent serves one node of a Kubernetes cluster; see `ktsn-agent --help`.
package main

import (
	"os"

	"github.com/kubernetsn/kubernetsn/internal/node/agent"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

func main() {
	os.Exit(commandline.Run(agent.Main))
}
