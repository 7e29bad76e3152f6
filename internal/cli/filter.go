// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

func newFilter(env *commandline.Environment) *cobra.Command {
	options := &nodeOptions{}
	var format string
	command := &cobra.Command{
		Use:   "filter",
		Short: "Repair the filter of the tunnels and bridges, and show what it has dropped",
		Long: "Repairs the filter that keeps foreign packets out of the tunnels and pods away from the node (nftables, tables\n" +
			"kubernetsn), and prints each difference on standard error. Then it shows how many packets the filter has dropped\n" +
			"since it was created, by reason. It needs no ktsnd.",
		Args: commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			options.control = ""
			return options.do(command.Context(), func(ctx context.Context, node *overlay.Node, _ *control.Client) error {
				changed, err := node.Guard(ctx)
				for _, difference := range changed {
					fmt.Fprintf(env.Stderr, "repaired: %s\n", difference)
				}
				if err != nil {
					return err
				}
				dropped, err := node.Dropped()
				if err != nil {
					return err
				}
				return show(env.Stdout, format, append([]overlay.Dropped{}, dropped...), printDropped) // JSON has a list, also when it is empty
			})
		},
	}
	commandline.OutputFlag(command, &format, "text or json", "text", "json")
	command.Flags().StringVar(&options.stateDir, "state-dir", overlay.DefaultStateDir, "tsn-cni's state directory")
	return command
}

func printDropped(out io.Writer, dropped []overlay.Dropped) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "REASON\tPACKETS")
	for _, counter := range dropped {
		fmt.Fprintf(table, "%s\t%d\n", counter.Reason, counter.Packets)
	}
	return table.Flush()
}
