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

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

func newClasses(env *commandline.Environment) *cobra.Command {
	return commandline.Group("classes", "Map priorities to traffic classes", newClassesSet(), newClassesGet(env))
}

func newClassesSet() *cobra.Command {
	var path string
	var classes, points []int
	command := &cobra.Command{
		Use:   "set",
		Short: "Change traffic classes and their priority code points",
		Long:  "Changes the traffic class of each SO_PRIORITY, and the PCP that frames of each class carry. Omitted options change nothing.",
		Args:  commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			flags := command.Flags()
			if !flags.Changed("map") && !flags.Changed("pcp") {
				return commandline.Usage(errors.New("neither --map nor --pcp is set; set at least one of them"))
			}
			if err := checkNumbers("map", classes, control.Priorities, flags.Changed("map")); err != nil {
				return err
			}
			if err := checkNumbers("pcp", points, control.TrafficClasses, flags.Changed("pcp")); err != nil {
				return err
			}
			return withClient(command.Context(), path, func(ctx context.Context, client *control.Client) error {
				status, err := client.Status(ctx)
				if err != nil {
					return err
				}
				fill(status.TrafficClassMap[:], classes)
				fill(status.PriorityCodePoints[:], points)
				return client.TrafficClassesSet(ctx, status.TrafficClassMap, status.PriorityCodePoints)
			})
		},
	}
	addControl(command, &path)
	command.Flags().IntSliceVar(&classes, "map", nil, "16 classes, 0 to 7, separated by commas, for SO_PRIORITY 0, 1, ... 15")
	command.Flags().IntSliceVar(&points, "pcp", nil, "8 priority code points, 0 to 7, separated by commas, for class 0, 1, ... 7")
	return command
}

func checkNumbers(option string, numbers []int, wanted int, given bool) error {
	if given && len(numbers) != wanted {
		return commandline.Usage(fmt.Errorf("--%s has %d numbers; must have %d", option, len(numbers), wanted))
	}
	for i, number := range numbers {
		if number < 0 || number > 7 {
			return commandline.Usage(fmt.Errorf("--%s has %d in place %d; must be from 0 to 7", option, number, i))
		}
	}
	return nil
}

// fill replaces the first values by numbers that were checked.
func fill(to []uint8, numbers []int) {
	for i, number := range numbers {
		to[i] = uint8(number)
	}
}

func newClassesGet(env *commandline.Environment) *cobra.Command {
	var path string
	command := &cobra.Command{
		Use:   "get",
		Short: "Show traffic classes and their priority code points",
		Args:  commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			status, err := ask(command.Context(), path, readStatus)
			if err != nil {
				return err
			}
			return printMaps(env.Stdout, status)
		},
	}
	addControl(command, &path)
	return command
}

func printMaps(out io.Writer, status *control.Status) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "class\tPCP\tSO_PRIORITY")
	for class := control.TrafficClasses - 1; class >= 0; class-- {
		fmt.Fprintf(table, "%d\t%d\t%s\n", class, status.PriorityCodePoints[class], priorities(status.TrafficClassMap, class))
	}
	return table.Flush()
}

// priorities lists the priorities of a class, or "-" if it has none.
func priorities(classes control.TrafficClassMap, class int) string {
	var all []string
	for priority, mapped := range classes {
		if int(mapped) == class {
			all = append(all, strconv.Itoa(priority))
		}
	}
	if len(all) == 0 {
		return "-"
	}
	return strings.Join(all, " ")
}
