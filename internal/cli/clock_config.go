// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"flag"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/node/ptp"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

func newClockConfig(env *commandline.Environment) *cobra.Command {
	options := &ptp.Options{}
	command := &cobra.Command{
		Use:   "config --device INTERFACE",
		Short: "Print a configuration of ptp4l, for a switch, a sender, a receiver or a guest",
		Long: "Prints the configuration that ktsn-ptp gives to ptp4l for these options. It is for ptp4l -f on machines that are not\n" +
			"nodes of the cluster, such as a switch or a virtual machine with a network card of its own. Options of ptp4l that\n" +
			"have ptp4l's own default are left out.",
		Args: commandline.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := options.Check(); err != nil {
				return commandline.Usage(err)
			}
			stamping := ptp.Stamping{Hardware: options.Stamping == ptp.StampHardware}
			if options.Stamping == ptp.StampAuto {
				var err error
				note := func(sentence string) { fmt.Fprintln(env.Stderr, "ktsn: "+sentence) }
				if stamping, err = options.ChooseStamping(ptp.Inspect, ptp.TryClock, note); err != nil {
					return fmt.Errorf("%w; or say --time-stamping hardware or software, when the configuration is for another machine", err)
				}
			}
			return options.Config(stamping).Write(env.Stdout)
		},
	}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	options.Register(flags)
	// The machine for which it is meant is rarely this one.
	options.Stamping = ptp.StampHardware
	flags.Lookup("time-stamping").DefValue = ptp.StampHardware
	command.Flags().AddGoFlagSet(flags)
	return command
}
