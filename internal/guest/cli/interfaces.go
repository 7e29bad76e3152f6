// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

// interfaces are given by options, by name or by hardware address: the name of a passed-through card is chosen by this machine's kernel.
type interfaces struct {
	names, addresses []string
	// all lists the machine's interfaces.
	all func() ([]net.Interface, error)
}

func (i *interfaces) add(command *cobra.Command) {
	i.all = net.Interfaces
	addInterfaces(command, &i.names)
	command.Flags().StringSliceVar(&i.addresses, "mac", nil, "hardware `ADDRESS` of an interface to the network, in the place of its name; can be repeated")
}

// resolve returns the names. Errors are usage errors.
func (i *interfaces) resolve() ([]string, error) {
	names := slices.Clone(i.names)
	for _, text := range i.addresses {
		name, err := i.named(text)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, checkInterfaces(names)
}

// named returns the name of the interface with a hardware address.
func (i *interfaces) named(text string) (string, error) {
	address, err := net.ParseMAC(text)
	if err != nil {
		return "", fmt.Errorf("%q is no hardware address; give one such as 0a:58:0a:2a:01:02", text)
	}
	all, err := i.all()
	if err != nil {
		return "", fmt.Errorf("list this machine's interfaces: %w", err)
	}
	var existing []string
	for _, iface := range all {
		if iface.HardwareAddr.String() == address.String() {
			existing = append(existing, iface.Name)
		}
	}
	switch len(existing) {
	case 0:
		return "", fmt.Errorf("no interface of this machine has the hardware address %s; `ip link` lists them", address)
	case 1:
		return existing[0], nil
	}
	return "", fmt.Errorf("%q all have the hardware address %s; name one by --interface", existing, address)
}

func addInterfaces(command *cobra.Command, to *[]string) {
	command.Flags().StringSliceVar(to, "interface", nil, "`NAME` of an interface to the network; can be repeated")
}

func checkInterfaces(names []string) error {
	if len(names) == 0 {
		return errors.New("no --interface says where frames with a transmit time leave")
	}
	if duplicate := slices.Compact(slices.Sorted(slices.Values(names))); len(duplicate) != len(names) {
		return fmt.Errorf("--interface names one of %q twice", names)
	}
	return nil
}

func newInterface(env *commandline.Environment) *cobra.Command {
	return &cobra.Command{
		Use:   "interface MAC",
		Short: "Print the name of the interface with a hardware address",
		Long:  "Prints the name of the interface with a hardware address, such as that of a card that was passed through to this machine.",
		Args:  commandline.OneArgument("a hardware address such as 0a:58:0a:2a:01:02"),
		RunE: func(_ *cobra.Command, arguments []string) error {
			name, err := (&interfaces{all: net.Interfaces}).named(arguments[0])
			if err == nil {
				_, err = fmt.Fprintln(env.Stdout, name)
			}
			return err
		},
	}
}
