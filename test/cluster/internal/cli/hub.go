// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cluster"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

func newHub(s *shared) *cobra.Command {
	command := &cobra.Command{
		Use: "hub", Short: "Start, kill and remove the hub of a federation, which is Karmada",
		Args: cobra.ArbitraryArgs, RunE: onlySubcommands,
	}
	command.AddCommand(newHubUp(s), newHubDown(s), newHubKill(s), newHubStart(s))
	return command
}

func newHubUp(s *shared) *cobra.Command {
	options := cluster.Options{Hub: true}
	var build buildOptions
	command := &cobra.Command{
		Use:   "up",
		Short: "Build what the cache lacks, start a hub with a WAN and wait until clusters can join",
		Args:  exactly(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			builder, err := build.builder(s.stderr)
			if err != nil {
				return err
			}
			options.Name, options.Dir, options.Builder, options.Progress = s.name, s.dir, builder, s.stdout
			_, err = cluster.Up(command.Context(), options)
			return err
		},
	}
	build.add(command)
	command.Flags().DurationVar(&options.Timeout, "timeout", 5*time.Minute, "after which a start has failed, without the building")
	return command
}

func newHubDown(s *shared) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Remove a hub and its WAN; members stay",
		Args:  exactly(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			// If the start of the hub was killed there may be no plan.
			if _, err := cluster.OpenHub(s.name, s.dir); errors.Is(err, cluster.ErrNoHub) {
				return err
			}
			return cluster.Down(command.Context(), s.name, s.dir)
		},
	}
}

func newHubKill(s *shared) *cobra.Command {
	return onHub(s, "kill", "Kill all programs of a hub at once; start has them run again", (*cluster.Cluster).KillServices)
}

func newHubStart(s *shared) *cobra.Command {
	return onHub(s, "start", "Start the programs of a hub that were killed, and wait until it answers",
		func(hub *cluster.Cluster, ctx context.Context, host string) error {
			if err := hub.StartServices(ctx, host); err != nil {
				return err
			}
			return hub.AwaitHub(ctx)
		})
}

// onHub returns a command for a hub's only machine.
func onHub(s *shared, use, short string, f func(*cluster.Cluster, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: exactly(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			hub, err := cluster.OpenHub(s.name, s.dir)
			if err != nil {
				return err
			}
			return f(hub, command.Context(), plan.HubHost)
		},
	}
}

// membership has the options of joining or leaving a hub.
type membership struct {
	hub string
	cluster.JoinOptions
}

func (m *membership) add(command *cobra.Command) {
	command.Flags().StringVar(&m.hub, "hub", "", "name of the hub, that of its `hub up`")
	command.Flags().StringVar(&m.As, "as", "", "what the hub calls the cluster (default: its name)")
	command.Flags().BoolVar(&m.Push, "push", false, "the hub reaches into the cluster, and no agent runs there")
}

// change runs f with the hub and the cluster.
func (m *membership) change(ctx context.Context, s *shared,
	f func(*cluster.Cluster, context.Context, *cluster.Cluster, cluster.JoinOptions) error,
) error {
	if m.hub == "" {
		return usageError{errors.New("--hub is missing; give the name of the hub")}
	}
	member, err := s.open()
	if err != nil {
		return err
	}
	hub, err := cluster.OpenHub(m.hub, s.dir)
	if err != nil {
		return err
	}
	if m.As == "" {
		m.As = member.Name
	}
	return f(hub, ctx, member, m.JoinOptions)
}

func newJoin(s *shared) *cobra.Command {
	var member membership
	var build buildOptions
	command := &cobra.Command{
		Use:   "join --hub HUB",
		Short: "Connect the cluster to the WAN of a hub and make it a member",
		Args:  exactly(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			builder, err := build.builder(s.stderr)
			if err != nil {
				return err
			}
			member.Builder = builder
			return member.change(command.Context(), s, (*cluster.Cluster).Join)
		},
	}
	build.add(command)
	member.add(command)
	return command
}

func newUnjoin(s *shared) *cobra.Command {
	var member membership
	command := &cobra.Command{
		Use:   "unjoin --hub HUB",
		Short: "End the cluster's membership; it stays on the WAN",
		Args:  exactly(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			return member.change(command.Context(), s, (*cluster.Cluster).Unjoin)
		},
	}
	member.add(command)
	return command
}
