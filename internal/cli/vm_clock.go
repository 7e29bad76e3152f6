// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/guest/hosttime"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

const vmClockLong = `Answers requests of ktsn-guest in a virtual machine for this node's time, until it is stopped. The machine has a virtio port
called ` + hosttime.PortName + `, on a unix socket of which QEMU is the server; it may come and go.
docs/guide/virtual-machines.md has the arguments of QEMU and libvirt.`

func newVMClock(env *commandline.Environment) *cobra.Command {
	var socket string
	var limit time.Duration
	command := &cobra.Command{
		Use:   "clock --socket PATH",
		Short: "Provide this node's time to a virtual machine",
		Long:  vmClockLong,
		Args:  commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if socket == "" {
				return commandline.Usage(errors.New("--socket is missing; give the socket at which QEMU listens"))
			}
			if limit < 0 {
				return commandline.Usage(fmt.Errorf("--limit %v is below zero", limit))
			}
			return hosttime.ServeAt(command.Context(), socket, limit, slog.New(slog.NewTextHandler(env.Stderr, nil)))
		},
	}
	flags := command.Flags()
	flags.StringVar(&socket, "socket", "", "`PATH` of the unix socket of the virtio port")
	flags.DurationVar(&limit, "limit", 0, "largest error of this node's time in the guest; above it, the guest sends no timed frames (default: no limit)")
	return command
}
