// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/relay"
	"github.com/kubernetsn/kubernetsn/internal/shared/subcommands"
)

func newNodeRelay(env *subcommands.Environment) *cobra.Command {
	stateDir, user := overlay.DefaultStateDir, relay.DefaultUser
	program := relay.Program{Path: env.Sibling("ktsn-relay")}
	command := &cobra.Command{
		Use:   "relay",
		Short: "Take captured frames to ktsnd, on a node without Kubernetes",
		Long: "Runs a ktsn-relay for each interface of this node's pods whose frames are captured (field capture of tsn-cni's\n" +
			"configuration), starts it again when it ends, and goes on until it is told to end. In a Kubernetes cluster\n" +
			"ktsn-agent does that. Without either, frames with a transmit time that did not come through libktsn.so are dropped.",
		Args: subcommands.NoArguments,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if program.User, err = relay.ParseUser(user); err != nil {
				return subcommands.Usage(fmt.Errorf("--relay-user %w", err))
			}
			if err := program.Check(); err != nil {
				return err
			}
			node, err := overlay.Open(stateDir, nodePatience)
			if err != nil {
				return err
			}
			defer node.Close()
			log := slog.New(slog.NewTextHandler(env.Stderr, nil))
			return relay.New(stateDir, node, program, log).Run(command.Context())
		},
	}
	flags := command.Flags()
	flags.StringVar(&stateDir, "state-dir", stateDir, "tsn-cni's state directory")
	flags.StringVar(&program.Path, "relay-binary", program.Path, "ktsn-relay")
	flags.StringVar(&user, "relay-user", user, "`UID[:GID]` as which it runs")
	return command
}
