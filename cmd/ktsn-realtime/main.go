// SPDX-License-Identifier: Apache-2.0

// Command ktsn-realtime becomes another program after it gave its cgroup a share of the real-time budget; see
// ktsn-realtime(8).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/realtime"
	"github.com/kubernetsn/kubernetsn/internal/shared/version"
)

const (
	exitFailure = 1
	exitUsage   = 2
)

// patience is how long the share of a predecessor is waited for.
const patience = 10 * time.Second

const usage = `Usage: ktsn-realtime [--share PERCENT] [--await INTERFACE] -- PROGRAM [ARGUMENT]...

Gives its own cgroup, and those above it, at least a share of the processor's real-time budget where the kernel
divides it among cgroups, and becomes PROGRAM, which may then use SCHED_FIFO (with CAP_SYS_NICE). A share that
another one has, such as a predecessor that has just ended, is waited for up to 10 s. With cgroups of version 2
there is nothing to give: where the kernel refuses SCHED_FIFO then, it says what to do on the node. Where it fails
it says so, and PROGRAM starts all the same.

Options:
  --share PERCENT    of each processor's time, 1 to 95 (default: 20)
  --await INTERFACE  first wait, for as long as it takes, until that network interface is up and has an IPv4 address
  --help             this text
  --version          the version
`

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(arguments []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("ktsn-realtime", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	percent, awaited := flags.Int("share", 20, ""), flags.String("await", "", "")
	which := flags.Bool("version", false, "")
	err := flags.Parse(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "ktsn-realtime: %v; `ktsn-realtime --help` lists the options\n", err)
		return exitUsage
	case *which:
		fmt.Fprintln(stdout, version.Line("ktsn-realtime"))
		return 0
	case *percent < 1 || *percent > 95:
		fmt.Fprintf(stderr, "ktsn-realtime: --share %d: give 1 to 95 percent\n", *percent)
		return exitUsage
	case flags.NArg() == 0:
		fmt.Fprintln(stderr, "ktsn-realtime: no PROGRAM; `ktsn-realtime --help` shows how it is called")
		return exitUsage
	}
	if *awaited != "" {
		await(*awaited, stderr)
	}
	levels, err := realtime.Levels("/proc/self")
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err = realtime.Raise(ctx, levels, float64(*percent)/100)
	}
	if err == nil {
		err = realtime.Check("/proc/self", realtime.TryFIFO)
	}
	if err != nil {
		fmt.Fprintf(stderr, "ktsn-realtime: no real-time budget: %v\n", err)
	}
	return become(flags.Args(), stderr)
}

// awaitEvery is how soon an interface is seen.
const awaitEvery = 100 * time.Millisecond

// await returns when the interface can be used. It says so when that takes time, because somebody may have to do something.
func await(name string, stderr io.Writer) {
	for reported := false; !usable(name); time.Sleep(awaitEvery) {
		if !reported {
			fmt.Fprintf(stderr, "ktsn-realtime: waiting until interface %s is up and has an IPv4 address\n", name)
			reported = true
		}
	}
}

func usable(name string) bool {
	link, err := net.InterfaceByName(name)
	if err != nil || link.Flags&net.FlagUp == 0 {
		return false
	}
	addresses, err := link.Addrs()
	return err == nil && slices.ContainsFunc(addresses, func(address net.Addr) bool {
		prefix, err := netip.ParsePrefix(address.String())
		return err == nil && prefix.Addr().Is4()
	})
}

// become returns only when it fails.
func become(command []string, stderr io.Writer) int {
	path, err := exec.LookPath(command[0])
	if err == nil {
		err = syscall.Exec(path, command, os.Environ())
	}
	fmt.Fprintf(stderr, "ktsn-realtime: start %s: %v\n", command[0], err)
	return exitFailure
}
