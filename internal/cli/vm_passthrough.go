// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/node/passthrough"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

func newVMPassthrough(env *commandline.Environment) *cobra.Command {
	return commandline.Group("passthrough", "Assign network cards to vfio-pci, and return them to the kernel",
		newPassthroughCheck(env), newPassthroughBind(env), newPassthroughUnbind(env))
}

// passthroughResult is what `check -o json` prints.
type passthroughResult struct {
	*passthrough.Device
	Reasons []string `json:"reasons"`
}

func newPassthroughCheck(env *commandline.Environment) *cobra.Command {
	var format string
	command := &cobra.Command{
		Use:   "check PCI",
		Short: "Check whether a card can be assigned, and show the reasons against it",
		Long: "Shows the driver, interfaces and IOMMU group of a network card, the other devices of the group, and the reasons against\n" +
			"assigning it: no IOMMU, other devices of the node in its group, or that the node would be cut off. Changes nothing.\n" +
			"The exit status is 1 if there are reasons against it.",
		Args: commandline.OneArgument("the card's PCI address, such as 0000:02:00.0"),
		RunE: func(_ *cobra.Command, arguments []string) error {
			address, err := passthrough.ParseAddress(arguments[0])
			if err != nil {
				return commandline.Usage(err)
			}
			device, reasons, err := passthrough.NewBus().Check(address)
			if err != nil {
				return err
			}
			if format == "json" {
				err = json.NewEncoder(env.Stdout).Encode(passthroughResult{device, reasons})
			} else {
				err = writeCard(env.Stdout, device)
			}
			if err == nil && len(reasons) > 0 {
				err = errors.New(address + " cannot be given away: " + strings.Join(reasons, "; "))
			}
			return err
		},
	}
	commandline.OutputFlag(command, &format, "text or json", "text", "json")
	return command
}

func writeCard(out io.Writer, device *passthrough.Device) error {
	var text strings.Builder
	line := func(name, format string, values ...any) {
		fmt.Fprintf(&text, "%-16s"+format+"\n", append([]any{name}, values...)...)
	}
	line("card", "%s (%04x:%04x)", device.Address, device.Vendor, device.Product)
	line("driver", "%s", orNone(device.Driver))
	line("interfaces", "%s", orNone(strings.Join(device.Interfaces, " ")))
	if device.Group < 0 {
		line("IOMMU group", "none")
	} else {
		line("IOMMU group", "%d", device.Group)
	}
	for _, other := range device.Others {
		line("also in it", "%s, class 0x%06x, driver %s", other.Address, other.Class, orNone(other.Driver))
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

const passthroughUse = `%s belongs to vfio-pci now, IOMMU group %d. Use it with one of these:
  ktsnd    --device %[1]s
  QEMU     -device vfio-pci,host=%[1]s
  libvirt  <hostdev mode='subsystem' type='pci' managed='no'><source>%[3]s</source></hostdev>
`

func newPassthroughBind(env *commandline.Environment) *cobra.Command {
	return &cobra.Command{
		Use:   "bind PCI",
		Short: "Assign a card to vfio-pci",
		Long: "Takes a network card from the kernel's driver and assigns it to vfio-pci, for ktsnd --device or a virtual machine, until\n" +
			"the next boot or `ktsn vm passthrough unbind`. A card that `ktsn vm passthrough check` has reasons against is refused.",
		Args: commandline.OneArgument("the card's PCI address, such as 0000:02:00.0"),
		RunE: func(command *cobra.Command, arguments []string) error {
			address, err := passthrough.ParseAddress(arguments[0])
			if err != nil {
				return commandline.Usage(err)
			}
			device, err := passthrough.NewBus().Bind(command.Context(), address)
			if err == nil {
				_, err = fmt.Fprintf(env.Stdout, passthroughUse, device.Address, device.Group, libvirtAddress(device.Address))
			}
			return err
		},
	}
}

// libvirtAddress is the element of libvirt's domain XML.
func libvirtAddress(address string) string {
	fields := strings.FieldsFunc(address, func(r rune) bool { return r == ':' || r == '.' })
	return fmt.Sprintf("<address domain='0x%s' bus='0x%s' slot='0x%s' function='0x%s'/>", fields[0], fields[1], fields[2], fields[3])
}

func newPassthroughUnbind(env *commandline.Environment) *cobra.Command {
	var force bool
	command := &cobra.Command{
		Use:   "unbind PCI",
		Short: "Return a card to the kernel",
		Long: "Returns a network card to the driver from which `ktsn vm passthrough bind` took it. A card that a ktsnd or a virtual\n" +
			"machine has open, or that was given to a pod, is refused unless --force is set.",
		Args: commandline.OneArgument("the card's PCI address, such as 0000:02:00.0"),
		RunE: func(_ *cobra.Command, arguments []string) error {
			address, err := passthrough.ParseAddress(arguments[0])
			if err != nil {
				return commandline.Usage(err)
			}
			unbind := passthrough.NewBus().Unbind
			if force {
				unbind = passthrough.NewBus().UnbindAnyway
			}
			device, err := unbind(address)
			if err == nil {
				_, err = fmt.Fprintf(env.Stdout, "%s belongs to %s again; its interfaces: %s\n", device.Address, device.Driver,
					orNone(strings.Join(device.Interfaces, " ")))
			}
			return err
		},
	}
	command.Flags().BoolVar(&force, "force", false, "even if the card belongs to a pod, which loses it")
	return command
}
