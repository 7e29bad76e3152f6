// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/privilege"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

const about = `Usage: ktsn-ptp --device INTERFACE [OPTION]...
       ktsn-ptp probe [--run-dir FOLDER] [--domain NUMBER]

Keeps this node's clock by PTP: finds out whether the devices stamp messages in hardware, writes the configuration of
ptp4l, runs ptp4l, and phc2sys where the clock is the network card's, gives the kernel the offset of TAI that the
grandmaster announces, and ends all of it together. When one of them ends it ends, too, and says why. "probe" tells by
its exit status whether the ptp4l of a running one answers.

Options:
`

// Main runs the command line of ktsn-ptp, without the program's name, and returns the exit status.
func Main(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	if len(arguments) > 0 && arguments[0] == "probe" {
		return commandline.Exit("ktsn-ptp", probe(ctx, arguments[1:], stdout), stderr)
	}
	return commandline.Exit("ktsn-ptp", keep(ctx, arguments, stdout), stderr)
}

// Parse reads the options of ktsn-ptp.
func Parse(arguments []string, stdout io.Writer) (*Runner, error) {
	runner := NewRunner(stdout)
	flags := flag.NewFlagSet("ktsn-ptp", flag.ContinueOnError)
	runner.Register(flags)
	flags.StringVar(&runner.RunDir, "run-dir", runner.RunDir, "`FOLDER` of ptp4l's socket and configuration, where ktsn-agent looks for them")
	flags.StringVar(&runner.Proc, "proc", runner.Proc, "`FOLDER` where the processes of this node are seen, of which none may keep the clock, too")
	flags.StringVar(&runner.PTP4L, "ptp4l", runner.PTP4L, "`PROGRAM`")
	flags.StringVar(&runner.PHC2SYS, "phc2sys", runner.PHC2SYS, "`PROGRAM`")
	if err := commandline.Parse(flags, about, arguments, stdout); err != nil {
		return nil, err
	}
	if err := runner.Check(); err != nil {
		return nil, fmt.Errorf("%w; %w", err, commandline.ErrUsage)
	}
	return runner, nil
}

func keep(ctx context.Context, arguments []string, stdout io.Writer) error {
	runner, err := Parse(arguments, stdout)
	if err != nil {
		return err
	}
	runner.Reduce = privilege.Reduce
	return runner.Run(ctx)
}

// privileges are those that the programs need: to set the clock, to have the card stamp messages, to send frames, and for the ports of
// PTP.
func (r *Runner) privileges() []privilege.Capability {
	keep := []privilege.Capability{privilege.NetAdmin, privilege.NetRaw, privilege.NetBindService}
	if !r.FreeRunning {
		keep = append(keep, privilege.SysTime)
	}
	return keep
}

func probe(ctx context.Context, arguments []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("ktsn-ptp probe", flag.ContinueOnError)
	runDir := flags.String("run-dir", DefaultRunDir, "`FOLDER` of ptp4l's socket")
	domain := flags.Int("domain", 0, "`NUMBER` of the PTP domain")
	if err := commandline.Parse(flags, about, arguments, stdout); err != nil {
		return err
	}
	if *domain < 0 || *domain > 127 {
		return fmt.Errorf("--domain %d: give 0 to 127; %w", *domain, commandline.ErrUsage)
	}
	return Probe(ctx, *runDir, *domain)
}
