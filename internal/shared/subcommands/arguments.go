// SPDX-License-Identifier: Apache-2.0

package subcommands

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// unknownCommand refuses words that are not the name of a command.
func unknownCommand(command *cobra.Command, arguments []string) error {
	if len(arguments) == 0 {
		return nil
	}
	return Usage(fmt.Errorf("%q is not a command; `%s --help` lists them", arguments[0], command.CommandPath()))
}

// OneArgument wants exactly one word behind the options; what says what it is.
func OneArgument(what string) cobra.PositionalArgs {
	return func(command *cobra.Command, arguments []string) error {
		if len(arguments) == 0 {
			return Usage(fmt.Errorf("no %s; `%s --help` shows what is accepted", what, command.CommandPath()))
		}
		return NoArguments(command, arguments[1:])
	}
}

// SeveralArguments wants one word at least.
func SeveralArguments(what string) cobra.PositionalArgs {
	return func(command *cobra.Command, arguments []string) error {
		if len(arguments) == 0 {
			return Usage(fmt.Errorf("no %s; `%s --help` shows what is accepted", what, command.CommandPath()))
		}
		return nil
	}
}

// TwoArguments wants exactly two words.
func TwoArguments(first, second string) cobra.PositionalArgs {
	return func(command *cobra.Command, arguments []string) error {
		if len(arguments) < 2 {
			return Usage(fmt.Errorf("no %s; `%s --help` shows what is accepted", []string{first, second}[len(arguments)], command.CommandPath()))
		}
		return NoArguments(command, arguments[2:])
	}
}

// NoArguments refuses words behind the options.
func NoArguments(command *cobra.Command, arguments []string) error {
	if len(arguments) == 0 {
		return nil
	}
	return Usage(fmt.Errorf("%q is too much; `%s --help` shows what is accepted", arguments[0], command.CommandPath()))
}

// CheckChoice refuses what is not among the values of an option.
func CheckChoice(option, format string, accepted ...string) error {
	if slices.Contains(accepted, format) {
		return nil
	}
	last := len(accepted) - 1
	return Usage(fmt.Errorf("%s %q is no format; accepted are %s and %s", option, format,
		strings.Join(accepted[:last], ", "), accepted[last]))
}
