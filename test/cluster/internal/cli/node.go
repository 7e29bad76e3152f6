// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cluster"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

func newLogs(s *shared) *cobra.Command {
	var tail int64
	command := &cobra.Command{
		Use:   "logs [NODE [SERVICE]]",
		Short: "Print what services of nodes wrote",
		Args: func(_ *cobra.Command, arguments []string) error {
			if len(arguments) > 2 {
				return usageError{errors.New("logs takes a node and a service at most; `ktsn-cluster logs --help` shows it")}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, arguments []string) error {
			c, err := s.open()
			if err != nil {
				return err
			}
			if len(arguments) == 0 {
				var all error
				for _, host := range c.Nodes {
					all = errors.Join(all, c.Logs(host.Name, "", tail, s.stdout))
				}
				return all
			}
			service := ""
			if len(arguments) == 2 {
				service = arguments[1]
			}
			return c.Logs(arguments[0], service, tail, s.stdout)
		},
	}
	command.Flags().Int64Var(&tail, "tail", 1<<40, "bytes of each log at most, from its end")
	return command
}

func newUsage(s *shared) *cobra.Command {
	var during time.Duration
	command := &cobra.Command{
		Use:   "usage",
		Short: "Print the memory and processor usage of the programs of the cluster or hub",
		Args:  exactly(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := s.open()
			if err != nil {
				return err
			}
			return c.PrintUsage(command.Context(), during, s.stdout)
		},
	}
	command.Flags().DurationVar(&during, "during", 10*time.Second, "how long it looks at processors")
	return command
}

func newNode(s *shared) *cobra.Command {
	command := &cobra.Command{
		Use: "node", Short: "Switch nodes on and off, cut them off, freeze them, run commands on them",
		Args: cobra.ArbitraryArgs, RunE: onlySubcommands,
	}
	on := func(use, short string, f func(context.Context, *cluster.Cluster, string) error) *cobra.Command {
		return &cobra.Command{
			Use: use + " NODE", Short: short, Args: exactly(1, "the name of a node"),
			RunE: func(command *cobra.Command, arguments []string) error {
				c, err := s.open()
				if err != nil {
					return err
				}
				return f(command.Context(), c, arguments[0])
			},
		}
	}
	command.AddCommand(
		on("stop", "Switch a node off, as if its power failed", func(ctx context.Context, c *cluster.Cluster, host string) error {
			return c.StopNode(ctx, host)
		}),
		on("start", "Switch a node on, and connect it if it was cut off", func(ctx context.Context, c *cluster.Cluster, host string) error {
			return c.StartNode(ctx, host)
		}),
		on("cut", "Pull a node's cable; start puts it back", func(ctx context.Context, c *cluster.Cluster, host string) error {
			return c.CutNode(ctx, host)
		}),
		on("freeze", "Stop all processes of a node, which then answers nothing", func(_ context.Context, c *cluster.Cluster, host string) error {
			return c.Freeze(host)
		}),
		on("thaw", "Have a frozen node go on", func(_ context.Context, c *cluster.Cluster, host string) error {
			return c.Thaw(host)
		}),
		newRestart(s), newExec(s))
	return command
}

func newRestart(s *shared) *cobra.Command {
	return &cobra.Command{
		Use:   "restart NODE SERVICE",
		Short: "Restart a service of a node, such as kubelet or containerd",
		Args:  exactly(2, "the name of a node and of a service"),
		RunE: func(command *cobra.Command, arguments []string) error {
			c, err := s.open()
			if err != nil {
				return err
			}
			return c.RestartService(command.Context(), arguments[0], arguments[1])
		},
	}
}

func newExec(s *shared) *cobra.Command {
	return &cobra.Command{
		Use:   "exec NODE -- COMMAND [ARGUMENT]...",
		Short: "Run a command on a node",
		Args: func(_ *cobra.Command, arguments []string) error {
			if len(arguments) < 2 {
				return usageError{errors.New("exec takes a node and a command; `ktsn-cluster node exec --help` shows it")}
			}
			return nil
		},
		RunE: func(command *cobra.Command, arguments []string) error {
			c, err := s.open()
			if err != nil {
				return err
			}
			if _, err := c.Node(arguments[0]); err != nil {
				return err
			}
			err = node.Exec(command.Context(), c.Place(arguments[0]), os.Stdin, s.stdout, s.stderr, arguments[1:]...)
			if err != nil {
				return fmt.Errorf("%s on %s: %w", arguments[1], arguments[0], err)
			}
			return nil
		},
	}
}
