// SPDX-License-Identifier: Apache-2.0

// Command tsn-cni is the network plugin of KuberneTSN, which container runtimes call; see docs/reference/tsn-cni.md.
package main

import (
	"os"
	"runtime"

	"github.com/kubernetsn/kubernetsn/internal/node/cni"
)

func init() {
	// The main goroutine stays on the process's first thread, which never leaves the node's network namespace.
	runtime.LockOSThread()
}

func main() {
	os.Exit(cni.Main(os.Stderr))
}
