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
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

const runLong = `Attaches a program to each interface: it puts a record with the transmit time in front of each frame whose socket asked for
one (SO_TXTIME), before any queueing discipline sees it. The host's relay takes the record off, and ktsnd sends the frame
at that time. Times are given in this machine's clocks, and the program corrects them: the host's time is asked for ten
times a second over a virtio port. On KVM a machine without such a port is told the host's clock by its own kernel
(ptp_kvm), which is CLOCK_REALTIME: --tai-offset must be the one that the host's kernel has, or all frames are off by
whole seconds. While the host's time is not known well enough, frames with a transmit time are dropped and counted.

When the command ends, the programs stay, and drop what they cannot correct; ` + "`ktsn-guest detach`" + ` takes them off.`

// Values of --host-clock.
const (
	clockAuto = "auto"
	clockPort = "port"
	clockKVM  = "ptp_kvm"
)

// maxTAIOffset limits --tai-offset, in seconds.
const maxTAIOffset = 1000

// runOptions are the options of `ktsn-guest run`.
type runOptions struct {
	interfaces interfaces
	port       string
	hostClock  string
	// taiOffset is in seconds; 0 uses that of this machine's kernel.
	taiOffset int64
	limit     time.Duration
	driftPPM  int64
	chrony    string
}

func newRun(env *commandline.Environment) *cobra.Command {
	options := &runOptions{}
	command := &cobra.Command{
		Use:   "run --interface NAME",
		Short: "Have frames carry their transmit time, in the host's time, until it is told to end",
		Long:  runLong,
		Args:  commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := options.check(); err != nil {
				return commandline.Usage(err)
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
	options.interfaces.add(command)
	flags.StringVar(&options.hostClock, "host-clock", clockAuto, "where the host's time comes from: port, ptp_kvm, or auto for the port where there is one")
	flags.Int64Var(&options.taiOffset, "tai-offset", 0, "`SECONDS` by which the host's CLOCK_TAI is ahead of its CLOCK_REALTIME, for ptp_kvm: exactly the "+
		"taiOffset that ktsn clock -o json says of the node (default: as in this machine)")
	flags.StringVar(&options.port, "port", hosttime.PortName, "`NAME` of the virtio port to the host")
	flags.DurationVar(&options.limit, "limit", 0, "drop frames with a time while the host's may be wrong by more than this (default: the host's limit; "+
		"with ptp_kvm 1ms)")
	flags.Int64Var(&options.driftPPM, "max-drift", 200, "by how many millionths (`PPM`) this machine's counter may be wrong against the host's")
	flags.StringVar(&options.chrony, "chrony-socket", "", "`PATH` of a SOCK reference clock of chronyd, which sets this machine's clock by the host's")
	return command
}

func (o *runOptions) check() error {
	var err error
	if o.interfaces.names, err = o.interfaces.resolve(); err != nil {
		return err
	}
	o.interfaces.addresses = nil
	if !slices.Contains([]string{clockAuto, clockPort, clockKVM}, o.hostClock) {
		return fmt.Errorf("--host-clock %q is none of %s, %s and %s", o.hostClock, clockAuto, clockPort, clockKVM)
	}
	if o.taiOffset < 0 || o.taiOffset > maxTAIOffset {
		return fmt.Errorf("--tai-offset %d is not from 0 to %d seconds", o.taiOffset, maxTAIOffset)
	}
	if o.limit < 0 {
		return fmt.Errorf("--limit %v is below zero", o.limit)
	}
	if o.driftPPM < 1 || o.driftPPM > 100_000 {
		return fmt.Errorf("--max-drift %d is not from 1 to 100000", o.driftPPM)
	}
	return nil
}

// follower attaches the programs and returns a Follower for them.
func (o *runOptions) follower(log *slog.Logger) (_ *hosttime.Follower, closeAll func(), err error) {
	var opened []*capture.Guest
	closeAll = func() {
		for _, guest := range opened {
			_ = guest.Close() // nothing is left to be written
		}
	}
	open, err := o.open()
	if err != nil {
		return nil, nil, err
	}
	follower := &hosttime.Follower{
		Open:     open,
		DriftPPB: 1000 * o.driftPPM, Limit: o.limit, Log: log,
	}
	if o.chrony != "" {
		follower.Discipline = hosttime.Chrony{Path: o.chrony}.Discipline
	}
	for _, name := range o.interfaces.names {
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

// open returns the function that opens the source of the host's time.
func (o *runOptions) open() (func() (hosttime.Port, error), error) {
	kvm := hosttime.NewKVM(time.Duration(o.taiOffset)*time.Second, o.limit)
	switch o.hostClock {
	case clockPort:
		return func() (hosttime.Port, error) { return hosttime.OpenPort(o.port) }, nil
	case clockKVM:
		return kvm.Open, kvm.Check()
	}
	return func() (hosttime.Port, error) { return hosttime.OpenEither(o.port, kvm) }, nil
}

// attach opens the program, and attaches it if necessary; its counters survive a restart of this command.
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
	var chosen interfaces
	command := &cobra.Command{
		Use:   "detach --interface NAME",
		Short: "Take the programs off",
		Long:  "Takes off what `ktsn-guest run` has attached. Transmit times end at this machine's own queueing disciplines then.",
		Args:  commandline.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			names, err := chosen.resolve()
			if err != nil {
				return commandline.Usage(err)
			}
			var all error
			for _, name := range names {
				all = errors.Join(all, capture.DetachGuest(name))
			}
			return all
		},
	}
	chosen.add(command)
	return command
}
