// SPDX-License-Identifier: Apache-2.0

// Command first is the first process of a virtual machine and, with the argument agent, the agent that carries out the
// host's requests; see package guestmachine.
package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
)

func main() {
	if slices.Equal(os.Args[1:], guestmachine.AgentArguments) {
		fmt.Fprintln(os.Stderr, "agent:", guestmachine.Agent())
		return
	}
	guestmachine.Main()
}
