// SPDX-License-Identifier: Apache-2.0

// Package command is what the programs that run in pods have in common: how options are read, what is said of those that
// are not understood, and exit statuses.
package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/shared/version"
)

// ErrUsage is in the error of a command line that was not understood.
var ErrUsage = errors.New("--help lists the options")

// Exit statuses.
const (
	ExitOK      = 0
	ExitFailure = 1
	ExitUsage   = 2
)

// Parse reads the options of a command that has no words behind them. Where help or the version is asked for it is written to
// stdout, about first, and the error is flag.ErrHelp: nothing is left to do. The first word of the flags' name is the program's.
func Parse(flags *flag.FlagSet, about string, arguments []string, stdout io.Writer) error {
	flags.SetOutput(io.Discard)
	which := flags.Bool("version", false, "print the version")
	err := flags.Parse(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, about)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return flag.ErrHelp
	case err != nil:
		return fmt.Errorf("%w; %w", err, ErrUsage)
	case *which:
		program, _, _ := strings.Cut(flags.Name(), " ")
		fmt.Fprintln(stdout, version.Line(program))
		return flag.ErrHelp
	case flags.NArg() > 0:
		return fmt.Errorf("%q is too much; %w", flags.Arg(0), ErrUsage)
	}
	return nil
}

// Exit says on stderr what went wrong in a program, if something did, and returns the exit status.
func Exit(program string, err error, stderr io.Writer) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return ExitOK
	}
	fmt.Fprintf(stderr, "%s: %v\n", program, err)
	if errors.Is(err, ErrUsage) {
		return ExitUsage
	}
	return ExitFailure
}
