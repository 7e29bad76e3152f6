// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/node/vm"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// guestInterface is how the printed commands call the machine's interface.
const guestInterface = "eth0"

func newVMAttach(env *commandline.Environment) *cobra.Command {
	node := &vm.Node{}
	m := &vm.Machine{}
	var format string
	command := &cobra.Command{
		Use:   "attach NAME --network NETWORK",
		Short: "Connect a virtual machine to a network",
		Long: "Connects a virtual machine to a network of this node, and prints the arguments of QEMU or libvirt, and the guest's\n" +
			"commands, that fit. The network is one of CNI's configurations with tsn-cni. The machine sends and receives at a tap,\n" +
			"or by vhost-user; for ktsnd it is what a pod is. Relays must run (ktsn-agent, or `ktsn node relay`). Without Kubernetes; there the pod of a machine is attached like any other.",
		Args: commandline.OneArgument("the virtual machine's name"),
		RunE: func(command *cobra.Command, arguments []string) error {
			m.Name = arguments[0]
			if err := m.Check(); err != nil {
				return commandline.Usage(err)
			}
			if err := node.Attach(command.Context(), m); err != nil {
				return err
			}
			return writeMachine(env.Stdout, m, format)
		},
	}
	flags := command.Flags()
	addVMState(command, node)
	flags.StringVar(&m.Network, "network", "", "`NAME` of the network's configuration")
	flags.StringVar(&m.ConfDir, "conf-dir", vm.DefaultConfDir, "folder of CNI's configurations")
	flags.StringSliceVar(&m.PluginDirs, "plugin-dir", []string{vm.DefaultPluginDir}, "folder of CNI's plugins; can be repeated")
	flags.StringVar(&m.Address, "mac", "", "the machine's hardware address (default: one of tsn-cni's)")
	flags.StringVar(&m.Device, "device", device.Tap, "`tap` or vhost-user")
	flags.StringVar(&m.Class, "class", device.ClassRecord, "source of a frame's class: `record`, pcp or queue; pcp and queue of a tap need a network that captures All")
	flags.IntVar(&m.Queues, "queues", 1, "pairs of queues of its interface, 1 to 8; more than 1 needs 2 virtual processors")
	flags.IntVar(&m.VCPUs, "vcpus", 1, "virtual processors of the machine")
	flags.IntVar(&m.Owner, "owner", -1, "`UID` that may open the tap or the socket without a privilege (default: root alone)")
	commandline.OutputFlag(command, &format, "qemu, libvirt or json", "qemu", "libvirt", "json")
	return command
}

func addVMState(command *cobra.Command, node *vm.Node) {
	command.Flags().StringVar(&node.StateDir, "state-dir", vm.DefaultStateDir, "folder of the records of connected machines")
}

func writeMachine(out io.Writer, m *vm.Machine, format string) error {
	var text string
	switch format {
	case "json":
		return printJSON(out, m)
	case "libvirt":
		text = m.Libvirt()
	default:
		text = "qemu-system-x86_64 ... " + m.QEMU()
	}
	text += "\nOn this node:\n" + indent(fmt.Sprintf("ktsn vm clock --socket %s\n", m.Clock)) + "\nIn the machine:\n" + indent(m.Guest(guestInterface))
	_, err := io.WriteString(out, text)
	return err
}

func indent(text string) string {
	var all strings.Builder
	for line := range strings.Lines(text) {
		all.WriteString("  " + line)
	}
	return all.String()
}

func newVMDetach() *cobra.Command {
	node := &vm.Node{}
	force := false
	command := &cobra.Command{
		Use:   "detach NAME",
		Short: "Disconnect a virtual machine",
		Long:  "Removes what `ktsn vm attach` created. It can be repeated after a failure.",
		Args:  commandline.OneArgument("the virtual machine's name"),
		RunE: func(command *cobra.Command, arguments []string) error {
			return node.Detach(command.Context(), arguments[0], force)
		},
	}
	addVMState(command, node)
	command.Flags().BoolVar(&force, "force", false, "continue if the network's plugins fail to remove what they created")
	return command
}

func newVMList(env *commandline.Environment) *cobra.Command {
	node := &vm.Node{}
	var format string
	command := &cobra.Command{
		Use:   "list",
		Short: "List the connected virtual machines",
		Long:  "Shows the virtual machines that `ktsn vm attach` has connected: their networks, taps and addresses.",
		Args:  commandline.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			all, err := node.List()
			if err != nil {
				return err
			}
			return show(env.Stdout, format, all, writeMachines)
		},
	}
	addVMState(command, node)
	commandline.OutputFlag(command, &format, "text or json", "text", "json")
	return command
}

func writeMachines(out io.Writer, all []*vm.Machine) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	_, err := fmt.Fprintln(table, "NAME\tNETWORK\tDEVICE\tQUEUES\tHARDWARE ADDRESS\tADDRESSES")
	for _, m := range all {
		var addresses []string
		for _, prefix := range m.Prefixes {
			addresses = append(addresses, prefix.String())
		}
		_, errLine := fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", m.Name, m.Network, cmp.Or(m.Tap, m.Device), m.Queues, m.Address, strings.Join(addresses, ","))
		err = errors.Join(err, errLine)
	}
	return errors.Join(err, table.Flush())
}
