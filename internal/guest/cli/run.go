// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/guest/hosttime"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/shared/subcommands"
)

const runLong = `Attaches a program to each interface: it puts a record with the transmit time in front of each frame whose socket asked for
one (SO_TXTIME), before any queueing discipline sees it. The host's relay takes the record off, and ktsnd sends the frame
at that time. Times are given in this machine's clocks; the host's time is asked for ten times a second over a virtio port,
and the program corrects them. While the host's time is not known well enough, frames with a transmit time are dropped and
counted.

When the command ends, the programs stay, and drop what they cannot correct; ` + "`ktsn-guest detach`" + ` takes them off.`

// runOptions are those of `ktsn-guest run`.
type runOptions struct {
	interfaces []string
	port       string
	limit      time.Duration
	driftPPM   int64
	chrony     string
}

func newRun(env *subcommands.Environment) *cobra.Command {
	options := &runOptions{}
	command := &cobra.Command{
		Use:   "run --interface NAME",
		Short: "Have frames carry their transmit time, in the host's time, until it is told to end",
		Long:  runLong,
		Args:  subcommands.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := options.check(); err != nil {
				return subcommands.Usage(err)
			}
			follower, closeAll, err := options.follower(slog.New(slog.NewTextHandler(env.Stderr, nil)))
			if err != nil {
				return err
			}
			defer closeAll()
			return follower.Run(command.Context())
		},
	}
	flags := command.Flags()
	addInterfaces(command, &options.interfaces)
	flags.StringVar(&options.port, "port", hosttime.PortName, "`NAME` of the virtio port to the host")
	flags.DurationVar(&options.limit, "limit", 0, "drop frames with a time while the host's may be wrong by more than this (default: the host's limit)")
	flags.Int64Var(&options.driftPPM, "max-drift", 200, "by how many millionths (`PPM`) this machine's counter may be wrong against the host's")
	flags.StringVar(&options.chrony, "chrony-socket", "", "`PATH` of a SOCK reference clock of chronyd, which sets this machine's clock by the host's")
	return command
}

func addInterfaces(command *cobra.Command, to *[]string) {
	command.Flags().StringSliceVar(to, "interface", nil, "`NAME` of an interface to the network; can be repeated")
}

func checkInterfaces(names []string) error {
	if len(names) == 0 {
		return errors.New("no --interface says where frames with a transmit time leave")
	}
	if duplicate := slices.Compact(slices.Sorted(slices.Values(names))); len(duplicate) != len(names) {
		return fmt.Errorf("--interface names one of %q twice", names)
	}
	return nil
}

func (o *runOptions) check() error {
	if err := checkInterfaces(o.interfaces); err != nil {
		return err
	}
	if o.limit < 0 {
		return fmt.Errorf("--limit %v is below zero", o.limit)
	}
	if o.driftPPM < 1 || o.driftPPM > 100_000 {
		return fmt.Errorf("--max-drift %d is not from 1 to 100000", o.driftPPM)
	}
	return nil
}

// follower attaches the programs.
func (o *runOptions) follower(log *slog.Logger) (_ *hosttime.Follower, closeAll func(), err error) {
	var opened []*capture.Guest
	closeAll = func() {
		for _, guest := range opened {
			_ = guest.Close() // nothing is left to be written
		}
	}
	follower := &hosttime.Follower{
		Open:     func() (hosttime.Port, error) { return hosttime.OpenPort(o.port) },
		DriftPPB: 1000 * o.driftPPM, Limit: o.limit, Log: log,
	}
	if o.chrony != "" {
		follower.Discipline = hosttime.Chrony{Path: o.chrony}.Discipline
	}
	for _, name := range o.interfaces {
		guest, err := attach(name)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		opened = append(opened, guest)
		follower.Programs = append(follower.Programs, guest)
	}
	return follower, closeAll, nil
}

// attach attaches the program, unless it is there, so that its counts survive a restart.
func attach(name string) (*capture.Guest, error) {
	guest, err := capture.OpenGuest(name)
	if err == nil {
		return guest, nil
	}
	if !errors.Is(err, capture.ErrUnattached) {
		return nil, err
	}
	if err := capture.AttachGuest(name); err != nil {
		return nil, err
	}
	return capture.OpenGuest(name)
}

func newDetach() *cobra.Command {
	var interfaces []string
	command := &cobra.Command{
		Use:   "detach --interface NAME",
		Short: "Take the programs off",
		Long:  "Takes off what `ktsn-guest run` has attached. Transmit times end at this machine's own queueing disciplines then.",
		Args:  subcommands.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := checkInterfaces(interfaces); err != nil {
				return subcommands.Usage(err)
			}
			var all error
			for _, name := range interfaces {
				all = errors.Join(all, capture.DetachGuest(name))
			}
			return all
		},
	}
	addInterfaces(command, &interfaces)
	return command
}
