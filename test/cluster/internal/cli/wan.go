// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cluster"
)

func newWAN(s *shared) *cobra.Command {
	command := &cobra.Command{
		Use: "wan", Short: "Connect clusters to the WAN of the hub, cut them off, delay packets",
		Args: cobra.ArbitraryArgs, RunE: onlySubcommands,
	}
	on := func(use, short string, f func(context.Context, *cluster.Cluster, string) error) *cobra.Command {
		return &cobra.Command{
			Use: use + " CLUSTER", Short: short, Args: exactly(1, "the name of a cluster"),
			RunE: func(command *cobra.Command, arguments []string) error {
				hub, err := cluster.OpenHub(s.name, s.dir)
				if err != nil {
					return err
				}
				return f(command.Context(), hub, arguments[0])
			},
		}
	}
	command.AddCommand(
		on("connect", "Connect a cluster that does not join", func(ctx context.Context, hub *cluster.Cluster, name string) error {
			member, err := cluster.Open(name, s.dir)
			if err != nil {
				return err
			}
			return hub.Connect(ctx, member)
		}),
		on("cut", "Pull the cable between a cluster, or the hub itself, and the WAN", func(ctx context.Context, hub *cluster.Cluster, name string) error {
			return hub.CutSite(ctx, name)
		}),
		on("mend", "Put that cable back", func(ctx context.Context, hub *cluster.Cluster, name string) error {
			return hub.MendSite(ctx, name)
		}),
		newWANSet(s), newWANCarry(s))
	return command
}

func newWANSet(s *shared) *cobra.Command {
	var delay time.Duration
	var mtu int
	command := &cobra.Command{
		Use:   "set CLUSTER",
		Short: "Set the delay and the MTU between a cluster, or the hub itself, and the WAN",
		Args:  exactly(1, "the name of a cluster"),
		RunE: func(command *cobra.Command, arguments []string) error {
			hub, err := cluster.OpenHub(s.name, s.dir)
			if err != nil {
				return err
			}
			if command.Flags().Changed("mtu") {
				if err := hub.SetMTU(command.Context(), arguments[0], mtu); err != nil {
					return err
				}
			}
			if command.Flags().Changed("delay") {
				return hub.SetDelay(command.Context(), arguments[0], delay)
			}
			return nil
		},
	}
	command.Flags().DurationVar(&delay, "delay", 0, "in each direction, such as 20ms; 0 takes it away")
	command.Flags().IntVar(&mtu, "mtu", 0, "of the way to and from the others")
	return command
}

// newWANCarry returns the hidden command that `wan set` runs.
func newWANCarry(s *shared) *cobra.Command {
	var delay time.Duration
	command := &cobra.Command{
		Use:    "carry CLUSTER",
		Short:  "Delay packets of a cluster until it is killed",
		Hidden: true,
		Args:   exactly(1, "the name of a cluster"),
		RunE: func(_ *cobra.Command, arguments []string) error {
			hub, err := cluster.OpenHub(s.name, s.dir)
			if err != nil {
				return err
			}
			return hub.CarryDelayed(arguments[0], delay, s.stdout)
		},
	}
	command.Flags().DurationVar(&delay, "delay", 0, "in each direction")
	return command
}
