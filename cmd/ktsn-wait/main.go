// SPDX-License-Identifier: Apache-2.0

// Command ktsn-wait ends when a pod has its links; see ktsn-wait(8).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/kubernetsn/kubernetsn/internal/node/linkwait"
	"github.com/kubernetsn/kubernetsn/internal/shared/version"
)

const (
	exitFailure = 1
	exitUsage   = 2
)

const usage = `Usage: ktsn-wait [--dir FOLDER] INTERFACE...

Waits until the pod's links that have these interfaces were up once, and ends with status 0. Meanwhile it says, whenever
that changes, what is missing. It is the first init container of a pod that is a client of a TSNService, so that no
program of the pod starts without its links. It needs no privilege and no token.

Options:
  --dir FOLDER  where ktsn-agent says that a link is up (default: /run/ktsn/links)
  --help        this text
  --version     the version
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

func run(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("ktsn-wait", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	dir, which := flags.String("dir", linkwait.PodFolder, ""), flags.Bool("version", false, "")
	err := flags.Parse(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "ktsn-wait: %v; `ktsn-wait --help` lists the options\n", err)
		return exitUsage
	case *which:
		fmt.Fprintln(stdout, version.Line("ktsn-wait"))
		return 0
	case flags.NArg() == 0:
		fmt.Fprintln(stderr, "ktsn-wait: no INTERFACE; `ktsn-wait --help` shows how it is called")
		return exitUsage
	}
	if err := linkwait.Wait(ctx, *dir, flags.Args(), stdout); err != nil {
		fmt.Fprintf(stderr, "ktsn-wait: %v\n", err)
		return exitFailure
	}
	return 0
}
