// SPDX-License-Identifier: Apache-2.0

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
	root := commandline.Root("ktsn", "Deterministic networking for unmodified applications",
		"ktsn shows and operates KuberneTSN on one machine: it measures the data path and compares it with the kernel's,\n"+
			"starts applications with libktsn, registers other nodes, shows the state of ktsnd, and sets its schedule.\n"+
			"In a Kubernetes cluster it shows networks and nodes, and reports what is missing.",
		version.Line("ktsn"))
	root.AddCommand(newDemo(env), newBench(env), newNode(env), newRun(env), newOVS(env), newStatus(env), newProbe(env), newTop(env), newTrace(env),
		newSchedule(env), newStrategy(env), newClasses(env), newClock(env), newVM(env), newDoctor(env), newFed(env), newVersion(env))
	return root
}
