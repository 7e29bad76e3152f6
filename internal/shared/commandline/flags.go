// SPDX-License-Identifier: Apache-2.0

// Package commandline parses command lines and reports their errors the same way in all Go programs: programs with commands (cobra), such as
// ktsn, use Main, Root and Group; programs with options only (flag), such as ktsn-agent, use Parse and Exit.
package commandline

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/kubernetsn/kubernetsn/internal/shared/version"
)

// Exit statuses.
const (
	ExitOK      = 0
	ExitFailure = 1
	ExitUsage   = 2
)

// ErrUsage marks an error as one of the command line of a program that uses Parse.
var ErrUsage = errors.New("--help lists the options")

// usageError marks an error as one of the command line of a program with commands.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks an error as one of the command line, for which the exit status is ExitUsage.
func Usage(err error) error { return usageError{err} }

// Run calls a program with the command line of this process until SIGINT, SIGTERM or another one of the signals arrives, and returns the
// exit status.
func Run(program func(ctx context.Context, arguments []string, stdout, stderr io.Writer) int, signals ...os.Signal) int {
	ctx, stop := signal.NotifyContext(context.Background(), append(signals, os.Interrupt, syscall.SIGTERM)...)
	defer stop()
	return program(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// Parse reads the options of a command without further arguments. For --help and --version it writes the answer to stdout, the help
// beginning with about, and returns flag.ErrHelp. The first word of the flags' name is the program's name.
func Parse(flags *flag.FlagSet, about string, arguments []string, stdout io.Writer) error {
	flags.SetOutput(io.Discard)
	printVersion := flags.Bool("version", false, "print the version")
	err := flags.Parse(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, about)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return flag.ErrHelp
	case err != nil:
		return fmt.Errorf("%w; %w", err, ErrUsage)
	case *printVersion:
		program, _, _ := strings.Cut(flags.Name(), " ")
		fmt.Fprintln(stdout, version.Line(program))
		return flag.ErrHelp
	case flags.NArg() > 0:
		return fmt.Errorf("%q is too much; %w", flags.Arg(0), ErrUsage)
	}
	return nil
}

// Exit writes the error of a program to stderr, if there is one, and returns the exit status.
func Exit(program string, err error, stderr io.Writer) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return ExitOK
	}
	fmt.Fprintf(stderr, "%s: %v\n", program, err)
	if usage := (usageError{}); errors.Is(err, ErrUsage) || errors.As(err, &usage) {
		return ExitUsage
	}
	return ExitFailure
}
