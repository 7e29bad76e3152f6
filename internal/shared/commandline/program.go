// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// Environment is the environment of commands.
type Environment struct {
	// Executable is the path of this program. Programs of the same build are in its folder.
	Executable string
	Stdout     io.Writer
	Stderr     io.Writer
}

// Sibling returns the path of a file of the same build. It is in the folder of this program; Debian packages have it in /usr/lib/ktsn, and
// this program in /usr/bin.
func (e *Environment) Sibling(name string) string {
	sibling := filepath.Join(filepath.Dir(e.Executable), name)
	if _, err := os.Stat(sibling); err != nil && filepath.Dir(e.Executable) == "/usr/bin" {
		return "/usr/lib/ktsn/" + name
	}
	return sibling
}

// Main runs a command line, without the program's name, until ctx ends, and returns the exit status. Errors are written to stderr. build
// returns the program's root command.
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
	return Exit(root.Name(), root.ExecuteContext(ctx), stderr)
}

// helpWithWords passes all words of `help COMMAND WORDS...` to a command that executes another program: they are commands of that program,
// and cobra omits them.
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

// Root returns a program's root command without its subcommands. version is the line that --version prints.
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

// Group returns a command that only has subcommands.
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
