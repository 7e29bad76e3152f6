// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

const strategyLong = `Changes the strategy, which determines when a message leaves. Pending messages stay.

  tas              at its time, as soon as the gate of its class is open for long enough (IEEE 802.1Qbv)
  strict-priority  at its time, the most important class first, as if all gates were open
  etf              at its time, whatever its class; a message that cannot leave then is dropped
  etf-deadline     the same for transmit times that are deadlines; they leave as soon as they can`

func newStrategy(env *commandline.Environment) *cobra.Command {
	return commandline.Group("strategy", "Set the strategy, which determines when a message leaves", newStrategySet(env))
}

func newStrategySet(_ *commandline.Environment) *cobra.Command {
	var path string
	command := &cobra.Command{
		Use:   "set NAME",
		Short: "Change to the strategy tas, strict-priority, etf or etf-deadline",
		Long:  strategyLong,
		Args:  commandline.OneArgument("NAME"),
		RunE: func(command *cobra.Command, arguments []string) error {
			return withClient(command.Context(), path, func(ctx context.Context, client *control.Client) error {
				return client.StrategySet(ctx, arguments[0])
			})
		},
	}
	addControl(command, &path)
	return command
}
