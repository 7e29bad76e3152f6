// SPDX-License-Identifier: Apache-2.0

// Package cli implements the command line of ktsn-guest, which runs in virtual machines.
package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/version"
)

// Main runs a command line, without the program's name, until ctx is done, and returns the exit status. Errors are written to stderr.
func Main(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	return commandline.Main(ctx, newRoot, arguments, stdout, stderr)
}

func newRoot(env *commandline.Environment) *cobra.Command {
	root := commandline.Root("ktsn-guest", "Transmit times that hold outside of a virtual machine",
		"ktsn-guest runs in a virtual machine, and has frames with a transmit time (SO_TXTIME) carry it to the host, in the host's\n"+
			"time. There ktsnd holds each frame until its time, although the machine's processors may not run then.",
		version.Line("ktsn-guest"))
	root.AddCommand(newRun(env), newStatus(env), newDetach(), newConfig(env), newInterface(env), newKernel(env))
	return root
}
