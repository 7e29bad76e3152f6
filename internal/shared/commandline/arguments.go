// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// unknownCommand rejects arguments that are not the name of a command.
func unknownCommand(command *cobra.Command, arguments []string) error {
	if len(arguments) == 0 {
		return nil
	}
	return Usage(fmt.Errorf("%q is not a command; `%s --help` lists them", arguments[0], command.CommandPath()))
}

// OneArgument requires exactly one argument. what names it in errors.
func OneArgument(what string) cobra.PositionalArgs {
	return func(command *cobra.Command, arguments []string) error {
		if len(arguments) == 0 {
			return Usage(fmt.Errorf("no %s; `%s --help` shows what is accepted", what, command.CommandPath()))
		}
		return NoArguments(command, arguments[1:])
	}
}

// OptionalArgument accepts one argument, which must not be empty: an unset variable of a shell would otherwise select all.
func OptionalArgument(what string) cobra.PositionalArgs {
	return func(command *cobra.Command, arguments []string) error {
		if len(arguments) > 0 && arguments[0] == "" {
			return Usage(fmt.Errorf("%s is empty; give one, or leave it out", what))
		}
		return NoArguments(command, arguments[min(1, len(arguments)):])
	}
}

// SeveralArguments requires at least one argument.
func SeveralArguments(what string) cobra.PositionalArgs {
	return func(command *cobra.Command, arguments []string) error {
		if len(arguments) == 0 {
			return Usage(fmt.Errorf("no %s; `%s --help` shows what is accepted", what, command.CommandPath()))
		}
		return nil
	}
}

// TwoArguments requires exactly two arguments.
func TwoArguments(first, second string) cobra.PositionalArgs {
	return func(command *cobra.Command, arguments []string) error {
		if len(arguments) < 2 {
			return Usage(fmt.Errorf("no %s; `%s --help` shows what is accepted", []string{first, second}[len(arguments)], command.CommandPath()))
		}
		return NoArguments(command, arguments[2:])
	}
}

// NoArguments rejects arguments.
func NoArguments(command *cobra.Command, arguments []string) error {
	if len(arguments) == 0 {
		return nil
	}
	return Usage(fmt.Errorf("%q is too much; `%s --help` shows what is accepted", arguments[0], command.CommandPath()))
}

// choice is the value of an option that has one of a few values.
type choice struct {
	value    *string
	accepted []string
}

func (c choice) String() string { return *c.value }

func (c choice) Type() string { return "string" }

func (c choice) Set(text string) error {
	if !slices.Contains(c.accepted, text) {
		return fmt.Errorf("accepted are %s", strings.Join(c.accepted, ", "))
	}
	*c.value = text
	return nil
}

// OutputFlag adds the option --output, -o to a command. The first of the accepted formats is the default.
func OutputFlag(command *cobra.Command, format *string, usage string, accepted ...string) {
	*format = accepted[0]
	command.Flags().VarP(choice{format, accepted}, "output", "o", usage)
}

// CheckChoice rejects a value that is not among the accepted values of an option.
func CheckChoice(option, format string, accepted ...string) error {
	if slices.Contains(accepted, format) {
		return nil
	}
	last := len(accepted) - 1
	return Usage(fmt.Errorf("%s %q is no format; accepted are %s and %s", option, format,
		strings.Join(accepted[:last], ", "), accepted[last]))
}
