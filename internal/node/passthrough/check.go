// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"fmt"
	"slices"
	"strings"
)

// Classes of the PCI specification, the upper eight bits.
const (
	classNetwork = 0x02
	classBridge  = 0x06
)

// kernels are drivers that leave a device to user space or to nobody.
var kernels = []string{"", VFIO, "pci-stub", "uio_pci_generic", "igb_uio"}

// Check returns a device, and the reasons why it cannot be given away, if any.
func (b *Bus) Check(address string) (*Device, []string, error) {
	device, err := b.Read(address)
	if err != nil {
		return nil, nil, err
	}
	reasons := slices.Concat(device.kindReasons(), device.groupReasons())
	for _, name := range device.Interfaces {
		uses, err := b.Uses(name)
		if err != nil {
			return nil, nil, fmt.Errorf("find out what interface %s is used for: %w", name, err)
		}
		if len(uses) > 0 {
			reasons = append(reasons, fmt.Sprintf("the node would be cut off: %s; move these to another interface first",
				strings.Join(uses, ", ")))
		}
	}
	return device, reasons, nil
}

func (d *Device) kindReasons() []string {
	var reasons []string
	if d.Class>>16 != classNetwork {
		reasons = append(reasons, fmt.Sprintf("it is no network card: its PCI class is 0x%06x", d.Class))
	} else if !slices.Contains(kernels, d.Driver) && len(d.Interfaces) == 0 {
		reasons = append(reasons, fmt.Sprintf("driver %s shows no interface of it in this network namespace: another one, such as a pod's, "+
			"has it; bring it back first (ip link set NAME netns 1)", d.Driver))
	}
	if d.VirtualFunctions > 0 {
		reasons = append(reasons, fmt.Sprintf("its %d virtual functions (SR-IOV) would go with it; disable them, or give one of them away instead",
			d.VirtualFunctions))
	}
	return reasons
}

func (d *Device) groupReasons() []string {
	if d.Group < 0 {
		return []string{"the machine has no IOMMU for it, which keeps it from memory of others; switch VT-d or AMD-Vi on in the firmware, " +
			"and boot the kernel with intel_iommu=on iommu=pt"}
	}
	var others []string
	for _, other := range d.Others {
		if other.Class>>16 != classBridge && !slices.Contains(kernels, other.Driver) {
			others = append(others, fmt.Sprintf("%s (driver %s)", other.Address, other.Driver))
		}
	}
	if len(others) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("IOMMU group %d has devices that the node uses: %s; a group goes to one user as a whole, so move the card to "+
		"another slot, or give these away as well", d.Group, strings.Join(others, ", "))}
}

// GivenAway lists the other devices of a device's IOMMU group that have been given away. A group goes to one user as a
// whole; the kernel rejects a second one.
func (b *Bus) GivenAway(device *Device) (others []string) {
	for _, other := range device.Others {
		switch owner := b.Claimed(other.Address); {
		case other.Class>>16 == classBridge:
		case owner != "":
			others = append(others, fmt.Sprintf("%s (of %s)", other.Address, owner))
		case other.Driver == VFIO:
			others = append(others, fmt.Sprintf("%s (driver %s)", other.Address, VFIO))
		}
	}
	return others
}
