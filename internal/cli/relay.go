// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/relay"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

func newNodeRelay(env *commandline.Environment) *cobra.Command {
	stateDir, user := overlay.DefaultStateDir, relay.DefaultUser
	programs := relay.Programs{
		Captured: relay.Program{Path: env.Sibling("ktsn-relay")}, Guests: relay.Program{Path: env.Sibling("ktsn-relay-vhost")},
	}
	command := &cobra.Command{
		Use:   "relay",
		Short: "Relay captured frames to ktsnd, on a node without Kubernetes",
		Long: "Runs a ktsn-relay for each interface of this node's pods whose frames are captured (field capture of tsn-cni's\n" +
			"configuration), and a ktsn-relay-vhost for each that a virtual machine has by vhost-user (field device). It restarts\n" +
			"relays that end, and runs until it is stopped. In a Kubernetes cluster ktsn-agent does this. Without either, frames\n" +
			"with a transmit time that did not come through libktsn.so are dropped.",
		Args: commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if programs.Captured.User, err = relay.ParseUser(user); err != nil {
				return commandline.Usage(fmt.Errorf("--relay-user %w", err))
			}
			programs.Guests.User = programs.Captured.User
			if err := programs.Captured.Check(); err != nil {
				return err
			}
			node, err := overlay.Open(stateDir, nodePatience)
			if err != nil {
				return err
			}
			defer node.Close()
			log := slog.New(slog.NewTextHandler(env.Stderr, nil))
			return relay.New(stateDir, node, programs, log).Run(command.Context())
		},
	}
	flags := command.Flags()
	flags.StringVar(&stateDir, "state-dir", stateDir, "tsn-cni's state directory")
	flags.StringVar(&programs.Captured.Path, "relay-binary", programs.Captured.Path, "ktsn-relay")
	flags.StringVar(&programs.Guests.Path, "vhost-relay-binary", programs.Guests.Path, "ktsn-relay-vhost")
	flags.StringVar(&user, "relay-user", user, "`UID[:GID]` as which they run")
	return command
}
