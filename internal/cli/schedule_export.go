// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/node/taprio"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/schedule"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// export has the options of `ktsn schedule export`.
type export struct {
	taprio.Options
	// classes and points replace those of the network, or ktsnd's own.
	classes, points []int
	speed, network  string
	apply           bool
	netns           string
	where           clusterFlags
}

func newScheduleExport(env *commandline.Environment) *cobra.Command {
	e := &export{}
	command := &cobra.Command{
		Use:                   "export [options] --taprio DEVICE {FILE | --network NAME}",
		DisableFlagsInUseLine: true,
		Short:                 "Print the commands by which a kernel executes a schedule",
		Long: "Prints the commands of tc, ethtool and ip by which a kernel without ktsnd executes a schedule, for a host or a virtual\n" +
			"machine: taprio, etf below its classes, and a VLAN device. With --apply they are run. Differences from ktsnd are\n" +
			"printed on stderr.\n\n" + fileLong,
		Args: func(command *cobra.Command, arguments []string) error {
			if e.network != "" {
				return commandline.NoArguments(command, arguments)
			}
			return commandline.OneArgument("FILE")(command, arguments)
		},
		RunE: func(command *cobra.Command, arguments []string) error { return e.run(command, env, arguments) },
	}
	e.addFlags(command)
	return command
}

func (e *export) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&e.Device, "taprio", "", "`DEVICE` that executes the gates; it needs a queue for each class")
	flags.BoolVar(&e.ETF, "etf", false, "put etf below the classes, for frames with a transmit time")
	flags.IntSliceVar(&e.ETFClasses, "etf-classes", nil, "classes that get etf, separated by commas (default: all)")
	flags.DurationVar(&e.Delta, "delta", 500*time.Microsecond, "how long before its transmit time etf gives a frame to the device")
	flags.IntVar(&e.VLAN, "vlan", 0, "`ID` of a VLAN device on it, whose tags have the classes' priority code points")
	flags.StringSliceVar(&e.Offload, "offload", nil, "functions of the network card: etf (launch time), taprio (gates), or both")
	flags.Lookup("offload").NoOptDefVal = taprio.OffloadETF
	flags.IntSliceVar(&e.classes, "map", nil, "16 classes, 0 to 7, separated by commas: of SO_PRIORITY 0, 1, ... 15 (default: the network's, or ktsnd's)")
	flags.IntSliceVar(&e.points, "pcp", nil, "priority code points, 0 to 7, separated by commas: of class 0, 1, ... (default: the network's, or ktsnd's)")
	flags.StringVar(&e.speed, "link-speed", "1Gbit", "speed of the link of a schedule in FILE, such as 100Mbit or 2500Mbit")
	flags.StringVar(&e.network, "network", "", "take schedule, classes and base time of the TSNNetwork `NAME` of a cluster")
	flags.BoolVar(&e.apply, "apply", false, "run the commands; if one fails, undo those before it")
	flags.StringVar(&e.netns, "netns", "", "`PATH` of the network namespace in which to run them")
	addClusterFlags(command, &e.where)
	_ = command.MarkFlagRequired("taprio") // there is such a flag
}

func (e *export) run(command *cobra.Command, env *commandline.Environment, arguments []string) error {
	if e.netns != "" && !e.apply {
		return commandline.Usage(errors.New("--netns requires --apply"))
	}
	table, err := e.table(command.Context(), arguments)
	if err != nil {
		return err
	}
	if err := e.setClasses(command); err != nil {
		return err
	}
	commands, err := taprio.Commands(table, &e.Options)
	if err != nil {
		return commandline.Usage(err)
	}
	for _, note := range taprio.Notes(table, &e.Options) {
		fmt.Fprintf(env.Stderr, "note: %s\n", note)
	}
	if e.apply {
		return e.applyTo(command.Context(), table)
	}
	for _, command := range commands {
		fmt.Fprintln(env.Stdout, command)
	}
	return nil
}

// table reads the schedule, and for a network also its classes.
func (e *export) table(ctx context.Context, arguments []string) (*control.GateParameterTable, error) {
	gates := tsnnetwork.DefaultGates()
	e.Classes, e.CodePoints = gates.Classes, gates.Points
	if e.network == "" {
		bps, err := schedule.ParseLinkSpeed(e.speed)
		if err != nil {
			return nil, commandline.Usage(fmt.Errorf("--link-speed %w", err))
		}
		document, err := schedule.Read(arguments[0])
		if err == nil {
			err = document.Check(bps)
		}
		if err != nil {
			return nil, err
		}
		return document.Table, nil
	}
	network, _, err := e.where.network(ctx, e.network)
	if err != nil {
		return nil, err
	}
	if gates, err = tsnnetwork.GatesOf(network); err != nil {
		return nil, fmt.Errorf("network %s: %w", e.network, err)
	}
	if request := network.Status.Schedule; request != nil && request.Hash == gates.Hash() {
		gates = gates.WithBaseTime(request.BaseTime)
	}
	e.Classes, e.CodePoints = gates.Classes, gates.Points
	return &gates.Table, nil
}

// setClasses applies the options for classes.
func (e *export) setClasses(command *cobra.Command) error {
	if err := checkNumbers("map", e.classes, control.Priorities, command.Flags().Changed("map")); err != nil {
		return err
	}
	if err := checkNumbers("pcp", e.points, len(e.points), false); err != nil {
		return err
	}
	if len(e.points) > control.TrafficClasses {
		return commandline.Usage(fmt.Errorf("--pcp has %d numbers, and there are %d classes", len(e.points), control.TrafficClasses))
	}
	fill(e.Classes[:], e.classes)
	fill(e.CodePoints[:], e.points)
	return nil
}

func (e *export) applyTo(ctx context.Context, table *control.GateParameterTable) error {
	if e.netns == "" {
		return taprio.Apply(ctx, table, &e.Options)
	}
	var failed error
	err := ns.WithNetNSPath(e.netns, func(ns.NetNS) error {
		failed = taprio.Apply(ctx, table, &e.Options)
		return nil
	})
	if err != nil {
		return fmt.Errorf("enter the network namespace %s: %w", e.netns, err)
	}
	return failed
}
