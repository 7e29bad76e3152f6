// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/schedule"
)

const fileLong = `FILE holds the gate-parameter-table of the YANG module ieee802-dot1q-sched, in YAML or JSON; docs/guide/schedules.md
describes it.`

// defaultGuardBand is ktsnd's default.
const defaultGuardBand = 20 * time.Microsecond

func newSchedule(env *commandline.Environment) *cobra.Command {
	return commandline.Group("schedule", "Check, plan, set, show and export the schedule of the gates (IEEE 802.1Qbv)",
		newScheduleCheck(env), newSchedulePlan(env), newScheduleSet(env), newScheduleGet(env), newScheduleExport(env))
}

func addASCII(command *cobra.Command, ascii *bool) {
	command.Flags().BoolVar(ascii, "ascii", false, "draw with ASCII characters, the default if the locale is not UTF-8")
}

func newScheduleCheck(env *commandline.Environment) *cobra.Command {
	var speed, network string
	var guardBand time.Duration
	var ascii bool
	var w clusterFlags
	command := &cobra.Command{
		Use:                   "check [options] {FILE | --network NAME [FILE]}",
		DisableFlagsInUseLine: true,
		Short:                 "Check a schedule without a ktsnd, and draw it",
		Long: "Checks a schedule by the rules of ktsnd, and draws it. No ktsnd is needed. With --network it is checked for the\n" +
			"slowest link of a TSNNetwork's nodes; without FILE it is the network's own schedule.\n\n" + fileLong,
		Args: func(command *cobra.Command, arguments []string) error {
			if network != "" {
				return commandline.OptionalArgument("FILE")(command, arguments)
			}
			return commandline.OneArgument("FILE")(command, arguments)
		},
		RunE: func(command *cobra.Command, arguments []string) error {
			if network != "" {
				return w.checkSchedule(command.Context(), env.Stdout, network, strings.Join(arguments, ""), ascii)
			}
			bps, err := schedule.ParseLinkSpeed(speed)
			if err != nil {
				return commandline.Usage(fmt.Errorf("--link-speed %w", err))
			}
			if guardBand < 0 || guardBand > time.Second {
				return commandline.Usage(fmt.Errorf("--guard-band %v; give a duration from 0s to 1s", guardBand))
			}
			document, err := schedule.Read(arguments[0])
			if err != nil {
				return err
			}
			if err := document.Check(bps); err != nil {
				return err
			}
			link := schedule.Link{SpeedBps: bps, GuardBandNs: guardBand.Nanoseconds()}
			printTable(env.Stdout, document.Table, link, drawingStyle(env.Stdout, ascii))
			fmt.Fprintf(env.Stdout, "%s: a link of %s can execute it\n", arguments[0], schedule.FormatLinkSpeed(bps))
			return nil
		},
	}
	command.Flags().StringVar(&speed, "link-speed", "1Gbit", "speed of the link, such as 100Mbit or 2500Mbit")
	command.Flags().DurationVar(&guardBand, "guard-band", defaultGuardBand, "guard band that ktsnd would keep")
	command.Flags().StringVar(&network, "network", "", "check for the TSNNetwork `NAME` of a cluster")
	addClusterFlags(command, &w)
	addASCII(command, &ascii)
	return command
}

func newScheduleSet(env *commandline.Environment) *cobra.Command {
	var path string
	var ascii bool
	command := &cobra.Command{
		Use:   "set FILE",
		Short: "Set the schedule of ktsnd",
		Long: "Checks a schedule for the link of ktsnd, sets it, and shows the state of the gates. A rejected schedule changes\n" +
			"nothing.\n\n" + fileLong,
		Args: commandline.OneArgument("FILE"),
		RunE: func(command *cobra.Command, arguments []string) error {
			document, err := schedule.Read(arguments[0])
			if err != nil {
				return err
			}
			current, err := ask(command.Context(), path, func(ctx context.Context, client *control.Client) (*control.Schedule, error) {
				return setSchedule(ctx, client, document)
			})
			if err != nil {
				return err
			}
			return printSchedule(env.Stdout, current, drawingStyle(env.Stdout, ascii))
		},
	}
	addControl(command, &path)
	addASCII(command, &ascii)
	return command
}

// setSchedule checks the schedule first, because these errors have the line of the file.
func setSchedule(ctx context.Context, client *control.Client, document *schedule.Document) (*control.Schedule, error) {
	current, err := client.Schedule(ctx)
	if err != nil {
		return nil, err
	}
	if err := document.Check(current.LinkSpeedBps); err != nil {
		return nil, err
	}
	if err := client.ScheduleSet(ctx, document.Table); err != nil {
		return nil, err
	}
	return client.Schedule(ctx)
}

func newScheduleGet(env *commandline.Environment) *cobra.Command {
	var path, format, network, node string
	var ascii bool
	var w clusterFlags
	command := &cobra.Command{
		Use:   "get",
		Short: "Show the schedule in force and the pending one",
		Args:  commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			switch {
			case node != "" && network != "":
				return errNodeAndNetwork
			case node != "":
				return w.onNode(command.Context(), node, env.Stdout, "schedule", "get", "--output", format)
			case network != "":
				return w.getSchedule(command.Context(), env.Stdout, network, format, ascii)
			}
			current, err := ask(command.Context(), path, readSchedule)
			switch {
			case err != nil:
				return err
			case format == "json":
				return printJSON(env.Stdout, current)
			case format == "yaml":
				return schedule.WriteYAML(env.Stdout, current)
			}
			return printSchedule(env.Stdout, current, drawingStyle(env.Stdout, ascii))
		},
	}
	addControl(command, &path)
	commandline.OutputFlag(command, &format, "text, json or yaml", "text", "json", "yaml")
	command.Flags().StringVar(&network, "network", "", "show the schedule of the TSNNetwork `NAME` of a cluster, and which nodes execute it")
	command.Flags().StringVar(&node, "node", "", "show the schedule of the ktsnd on the cluster's node `NAME`")
	addClusterFlags(command, &w)
	addASCII(command, &ascii)
	return command
}
