// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/node/relay"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

func newVMRelay(env *commandline.Environment) *cobra.Command {
	user := relay.DefaultUser
	guest := relay.Guest{Queues: 1, Processors: 1, Class: device.Classes[0]}
	program := relay.Program{Path: env.Sibling("ktsn-relay-vhost")}
	command := &cobra.Command{
		Use:   "relay --netns PATH --socket PATH --vhost-socket PATH",
		Short: "Serve a virtual machine by vhost-user",
		Long: "Prints the matching arguments of QEMU and elements of libvirt, and runs a ktsn-relay-vhost for the virtual machine:\n" +
			"frames of the machine go to ktsnd, on behalf of the pod with the given endpoint. It restarts the relay when it\n" +
			"ends, and runs until it is stopped.",
		Args: commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if program.User, err = relay.ParseUser(user); err != nil {
				return commandline.Usage(fmt.Errorf("--relay-user %w", err))
			}
			if err := guest.Check(); err != nil {
				return commandline.Usage(err)
			}
			if err := program.Check(); err != nil {
				return err
			}
			if err := writeRelayed(env.Stdout, &guest); err != nil {
				return err
			}
			return guest.Run(command.Context(), &program, slog.New(slog.NewTextHandler(env.Stderr, nil)))
		},
	}
	flags := command.Flags()
	flags.StringVar(&guest.Netns, "netns", "", "network namespace of the pod, a path")
	flags.StringVar(&guest.Interface, "interface", "tsn0", "its interface, whose hardware address the machine gets")
	flags.StringVar(&guest.Socket, "socket", "", "its application socket of ktsnd")
	flags.StringVar(&guest.VhostSocket, "vhost-socket", "", "socket of vhost-user")
	flags.BoolVar(&guest.RelayListens, "relay-listens", false, "the relay listens there, and not the machine")
	flags.IntVar(&guest.Queues, "queues", guest.Queues, "pairs of queues of the machine's device")
	flags.IntVar(&guest.Processors, "vcpus", guest.Processors, "virtual processors of the machine")
	flags.StringVar(&guest.Class, "class", guest.Class, "source of a frame's class: `record`, pcp or queue")
	flags.BoolVar(&guest.Records, "records", false, "frames may have a record with a transmit time")
	flags.StringVar(&program.Path, "relay-binary", program.Path, "ktsn-relay-vhost")
	flags.StringVar(&user, "relay-user", user, "`UID[:GID]` as which it runs: one who may use the socket of vhost-user")
	for _, required := range []string{"netns", "socket", "vhost-socket"} {
		_ = command.MarkFlagRequired(required) // there is such a flag
	}
	return command
}

func writeRelayed(to io.Writer, guest *relay.Guest) error {
	address, err := guest.HardwareAddress()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(to, "QEMU:\n\n%s\n\nlibvirt:\n\n%s\n", strings.Join(guest.QEMU(address), "\n"), guest.Libvirt(address))
	return err
}
