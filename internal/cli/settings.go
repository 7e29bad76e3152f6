// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/node/hostsettings"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// defaultFIFO is ktsnd's default priority.
const defaultFIFO = 50

func newSettings(env *commandline.Environment) *cobra.Command {
	var path, format string
	given := hostsettings.Ktsnd{FIFOPriority: defaultFIFO}
	command := &cobra.Command{
		Use:   "settings",
		Short: "Show how this machine is set up for punctual sending",
		Long: "Shows the settings of this machine that affect the punctuality of ktsnd: power states, interrupts, isolated\n" +
			"processors and others, each with its value, its cost, and how to change it. It changes nothing. Without a\n" +
			"ktsnd (--control \"\") the settings are assessed for the processor --cpu and the interface --interface.",
		Args: commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			ktsnd := given
			switch flags := command.Flags(); {
			case path != "" && (flags.Changed("cpu") || flags.Changed("interface")):
				return commandline.Usage(errors.New("ktsnd reports its processor and interface; --cpu and --interface require --control \"\""))
			case path != "":
				status, err := ask(command.Context(), path, readStatus)
				if err != nil {
					return err
				}
				ktsnd = served(status)
			}
			all := hostsettings.This().Read(ktsnd)
			return show(env.Stdout, format, all, printSettings)
		},
	}
	addControl(command, &path)
	command.Flags().IntVar(&given.CPU, "cpu", -1, "without a ktsnd: its processor, -1 for any")
	command.Flags().StringVar(&given.Interface, "interface", "", "without a ktsnd: the `NAME` of the uplink")
	commandline.OutputFlag(command, &format, "text or json", "text", "json")
	return command
}

// served returns the relevant settings of a running ktsnd.
func served(status *control.Status) hostsettings.Ktsnd {
	return hostsettings.Ktsnd{CPU: status.CPU, FIFOPriority: status.FIFOPriority(), KeepsAwake: status.KeepAwake, Interface: status.Interface, PID: status.PID}
}

func printSettings(out io.Writer, all []hostsettings.Setting) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, setting := range all {
		fmt.Fprintf(table, "%s\t%s\n", setting.Name, setting.Found)
		if setting.Cost != "" {
			fmt.Fprintf(table, "\tcosts: %s\n\t-> %s\n", setting.Cost, setting.Mend)
		}
	}
	return table.Flush()
}
