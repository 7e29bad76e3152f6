// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of ktsn-bench: the arguments, checks and messages of each command.
package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/version"
)

// name is the program's own name. ktsn starts it under the name of ktsn, because users call its commands through ktsn.
const name = "ktsn-bench"

// Main runs a command line until ctx ends, and returns the exit status. The first argument is the name by which the
// program was started. Errors are one line on stderr.
func Main(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	called := name
	if arguments[0] == "ktsn" {
		called = "ktsn"
	}
	build := func(env *commandline.Environment) *cobra.Command { return newRoot(called, env) }
	return commandline.Main(ctx, build, arguments[1:], stdout, stderr)
}

func newRoot(called string, env *commandline.Environment) *cobra.Command {
	root := commandline.Root(called, "Measurements of KuberneTSN",
		"ktsn-bench measures the data path of KuberneTSN beside the kernel's own, on this machine or in a Kubernetes cluster.\n"+
			"`ktsn demo` and `ktsn bench` start it.",
		version.Line(name))
	root.AddCommand(newDemo(env), newBench(env))
	return root
}
