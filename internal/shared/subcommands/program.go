// SPDX-License-Identifier: Apache-2.0

package subcommands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	ExitOK      = 0
	ExitFailure = 1
	ExitUsage   = 2
)

// usageError is a command line that was not understood.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks an error as one of the command line, for which the exit status is ExitUsage.
func Usage(err error) error { return usageError{err} }

// Environment is what commands know of the world outside.
type Environment struct {
	// Executable is the path of this program; what was built beside it is found there.
	Executable string
	Stdout     io.Writer
	Stderr     io.Writer
}

// Sibling returns the path of a file in the folder of this program.
func (e *Environment) Sibling(name string) string {
	return filepath.Join(filepath.Dir(e.Executable), name)
}

// Main runs a command line, without the program's name, until ctx ends, and returns the exit status. An
// error is one sentence on stderr. build makes the program's root command.
func Main(ctx context.Context, build func(*Environment) *cobra.Command, arguments []string, stdout, stderr io.Writer) int {
	executable, err := os.Executable()
	root := build(&Environment{executable, stdout, stderr})
	if err != nil {
		fmt.Fprintf(stderr, "%s: find this program's own folder: %v\n", root.Name(), err)
		return ExitFailure
	}
	root.SetArgs(arguments)
	root.SetOut(stdout)
	root.SetErr(stderr)
	helpWithWords(root)
	err = root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
	var usage usageError
	if errors.As(err, &usage) {
		return ExitUsage
	}
	return ExitFailure
}

// helpWithWords has `help COMMAND WORDS...` tell the help of a command that becomes another program the words behind its name: they
// are commands of that program, and cobra leaves them out.
func helpWithWords(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil || help == root {
		return
	}
	usual := help.Run
	help.Run = func(command *cobra.Command, arguments []string) {
		named, words, err := root.Find(arguments)
		if err != nil || !named.DisableFlagParsing {
			usual(command, arguments)
			return
		}
		named.HelpFunc()(named, words)
	}
}

// Root is a program without its commands. version is the line that --version prints.
func Root(name, short, long, version string) *cobra.Command {
	root := Group(name, short)
	root.Long, root.Version = long, version
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		return Usage(fmt.Errorf("%w; `%s --help` lists the options", err, command.CommandPath()))
	})
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version")
	root.CompletionOptions.HiddenDefaultCmd = true
	return root
}

// Group is a command that only has commands of its own.
func Group(name, short string, commands ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  unknownCommand,
		RunE:  func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(commands...)
	return command
}
