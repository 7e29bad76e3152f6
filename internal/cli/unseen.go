// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/unseen"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/subcommands"
)

func newUnseen(env *subcommands.Environment) *cobra.Command {
	options := &nodeOptions{}
	var format string
	command := &cobra.Command{
		Use:   "unseen",
		Short: "Show datagrams that pods' interfaces did not let out early",
		Long: "Shows for each interface of this node's pods how many datagrams with a transmit time were dropped because they\n" +
			"did not come through libktsn.so and would have left early, and which programs sent them, as far as that is known.",
		Args: subcommands.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkFormat(format, "text", "wide", "json"); err != nil {
				return err
			}
			return options.do(command.Context(), func(ctx context.Context, _ *overlay.Node, client *control.Client) error {
				if client == nil {
					return subcommands.Usage(errors.New("without a control socket nobody says which interfaces there are"))
				}
				return showUnseen(ctx, env.Stdout, client, format)
			})
		},
	}
	command.Flags().StringVarP(&format, "output", "o", "text", "text, wide (with the pods' identities) or json")
	return options.add(command)
}

func showUnseen(ctx context.Context, out io.Writer, client *control.Client, format string) error {
	endpoints, err := client.Endpoints(ctx)
	if err != nil {
		return err
	}
	all := readUnseen(endpoints)
	if format == "json" {
		return printJSON(out, all)
	}
	pods, err := client.Pods(ctx)
	if err != nil {
		return err
	}
	return printUnseen(out, all, podNames{of: namesOf(pods), wide: format == "wide"})
}

// readUnseen reads the counts of all interfaces. What fails of one is said in its place.
func readUnseen(endpoints []control.AttachedEndpoint) []unseen.At {
	all := []unseen.At{}
	for _, endpoint := range endpoints {
		one := unseen.At{Identity: endpoint.Identity, Interface: endpoint.Interface}
		var err error
		if one.Count, err = unseen.ReadIn(endpoint.Netns, endpoint.Interface); err != nil {
			one.Failure = err.Error()
		}
		all = append(all, one)
	}
	return all
}

func printUnseen(out io.Writer, all []unseen.At, names podNames) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%s\tINTERFACE\tUNSEEN\tOF PROGRAMS\n", names.head("POD", "IDENTITY"))
	for _, one := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", names.cells(one.Identity), one.Interface, unseenText(&one), programsText(one.Programs))
	}
	return table.Flush()
}

func unseenText(one *unseen.At) string {
	switch {
	case one.Failure != "":
		return "unknown: " + one.Failure
	case !one.Guarded:
		return "let pass"
	}
	return strconv.FormatUint(one.Datagrams, 10)
}

func programsText(programs []unseen.Program) string {
	var texts []string
	for _, program := range programs {
		texts = append(texts, fmt.Sprintf("%q %d (process %d)", program.Name, program.Datagrams, program.PID))
	}
	return strings.Join(texts, ", ")
}
