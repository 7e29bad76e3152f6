// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/version"
)

// Exit statuses of ktsn.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// usageError is a command line that was not understood.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// environment is what commands know of the world outside.
type environment struct {
	// executable is the path of this program; what was built beside it is found there.
	executable string
	stdout     io.Writer
	stderr     io.Writer
}

// beside returns the path of a file in the folder of this program.
func (e *environment) beside(name string) string {
	return filepath.Join(filepath.Dir(e.executable), name)
}

// Main runs a command line, without the program's name, until ctx ends, and returns the exit status. An
// error is one sentence on stderr.
func Main(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	executable, err := os.Executable()
	if err != nil {
		fmt.Fprintf(stderr, "ktsn: find this program's own folder: %v\n", err)
		return exitFailure
	}
	root := newRoot(&environment{executable, stdout, stderr})
	root.SetArgs(arguments)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err = root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "ktsn: %v\n", err)
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailure
}

func newRoot(env *environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "ktsn",
		Short: "Deterministic networking for unmodified applications",
		Long: "ktsn shows and uses KuberneTSN on one machine: it measures the data path beside the kernel's own,\n" +
			"starts applications with libktsn, tells the node of others, asks ktsnd how it is and what it does, and\n" +
			"gives it schedules. In a Kubernetes cluster it shows networks and nodes, and says what is missing.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version.Line("ktsn"),
		Args:          unknownCommand,
		RunE:          func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; `%s --help` lists the options", err, command.CommandPath())}
	})
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newDemo(env), newBench(env), newNode(env), newRun(env), newOVS(env), newStatus(env), newTop(env), newTrace(env),
		newSchedule(env), newStrategy(env), newClasses(env), newDoctor(env))
	return root
}

// group is a command that only has commands of its own.
func group(name, short string, commands ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  unknownCommand,
		RunE:  func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(commands...)
	return command
}

// unknownCommand refuses words that are not the name of a command.
func unknownCommand(command *cobra.Command, arguments []string) error {
	if len(arguments) == 0 {
		return nil
	}
	return usageError{fmt.Errorf("%q is not a command; `%s --help` lists them", arguments[0], command.CommandPath())}
}

// oneArgument wants exactly one word behind the options; what says what it is.
func oneArgument(what string) cobra.PositionalArgs {
	return func(command *cobra.Command, arguments []string) error {
		if len(arguments) == 0 {
			return usageError{fmt.Errorf("no %s; `%s --help` shows what is accepted", what, command.CommandPath())}
		}
		return noArguments(command, arguments[1:])
	}
}

// severalArguments wants one word at least.
func severalArguments(what string) cobra.PositionalArgs {
	return func(command *cobra.Command, arguments []string) error {
		if len(arguments) == 0 {
			return usageError{fmt.Errorf("no %s; `%s --help` shows what is accepted", what, command.CommandPath())}
		}
		return nil
	}
}

// twoArguments wants exactly two words.
func twoArguments(first, second string) cobra.PositionalArgs {
	return func(command *cobra.Command, arguments []string) error {
		if len(arguments) < 2 {
			return usageError{fmt.Errorf("no %s; `%s --help` shows what is accepted", []string{first, second}[len(arguments)], command.CommandPath())}
		}
		return noArguments(command, arguments[2:])
	}
}

// noArguments refuses words behind the options.
func noArguments(command *cobra.Command, arguments []string) error {
	if len(arguments) == 0 {
		return nil
	}
	return usageError{fmt.Errorf("%q is too much; `%s --help` shows what is accepted", arguments[0], command.CommandPath())}
}
