// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/beevik/etree"
)

// Interface is a network device of the machine. It has a tap or a socket.
type Interface struct {
	// Name is how KubeVirt finds it.
	Name string
	// Tap is a device of the kernel's that is there already.
	Tap string
	// Socket is that of a back end of vhost-user, which listens.
	Socket string
	// Address is its hardware address, Model what libvirt calls it.
	Address, Model string
	MTU            int
	// Queues are pairs.
	Queues int
	// PCIAddress is "" and the numbers are 0 where libvirt chooses.
	PCIAddress string
	ACPIIndex  int
	BootOrder  uint
	Down       bool
}

// aliasPrefix opens those names of devices that users choose.
const aliasPrefix = "ua-"

// segmentation is what neither tap nor relay completes, as libvirt calls it. (Checksums are completed.)
var segmentation = []string{"gso", "tso4", "tso6", "ecn", "ufo"}

// SetInterface adds a network device, in the place of one of that name.
func (d *Domain) SetInterface(i *Interface) error {
	element, err := i.element()
	if err != nil {
		return err
	}
	if i.Tap == "" {
		d.overrideMTU(i)
	}
	devices := child(d.root, "devices")
	for _, old := range devices.SelectElements("interface") {
		if hasAlias(old, aliasPrefix+i.Name) {
			devices.InsertChildAt(old.Index(), element)
			devices.RemoveChild(old)
			return nil
		}
	}
	addDevice(devices, element)
	return nil
}

func (i *Interface) element() (*etree.Element, error) {
	createdElement := etree.NewElement("interface")
	add := func(tag string, attributes ...string) *etree.Element {
		return element(createdElement, tag, attributes...)
	}
	add("mac", "address", i.Address)
	if i.Tap != "" {
		createdElement.CreateAttr("type", "ethernet")
		add("target", "dev", i.Tap, "managed", "no")
	} else {
		createdElement.CreateAttr("type", "vhostuser")
		// The back end may be another one after an upgrade of the node.
		element(add("source", "type", "unix", "path", i.Socket, "mode", "client"), "reconnect", "enabled", "yes", "timeout", "1")
	}
	add("model", "type", i.Model)
	if i.Tap != "" {
		add("mtu", "size", strconv.Itoa(i.MTU))
	}
	i.addDriver(createdElement)
	add("alias", "name", aliasPrefix+i.Name)
	if i.Down {
		add("link", "state", "down")
	}
	if i.ACPIIndex > 0 {
		add("acpi", "index", strconv.Itoa(i.ACPIIndex))
	}
	if i.BootOrder > 0 {
		add("boot", "order", strconv.FormatUint(uint64(i.BootOrder), 10))
	} else {
		add("rom", "enabled", "no")
	}
	if i.PCIAddress == "" {
		return createdElement, nil
	}
	attributes, err := pciAddress(i.PCIAddress)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", i.Name, err)
	}
	add("address", attributes...)
	return createdElement, nil
}

// addDriver says what QEMU offers the machine. With vhost-user the relay says it, but for queues.
func (i *Interface) addDriver(element *etree.Element) {
	driver := element.CreateElement("driver")
	if i.Queues > 1 {
		driver.CreateAttr("queues", strconv.Itoa(i.Queues))
	}
	if i.Tap == "" {
		return
	}
	host, guest := driver.CreateElement("host"), driver.CreateElement("guest")
	for _, name := range segmentation {
		host.CreateAttr(name, "off")
		if name != "gso" { // a machine is asked for the kinds only
			guest.CreateAttr(name, "off")
		}
	}
}

var pciForm = regexp.MustCompile(`^([0-9a-fA-F]{4}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])$`)

func pciAddress(text string) ([]string, error) {
	parts := pciForm.FindStringSubmatch(text)
	if parts == nil {
		return nil, fmt.Errorf("%q is no PCI address, such as 0000:02:01.0", text)
	}
	return []string{"type", "pci", "domain", "0x" + parts[1], "bus", "0x" + parts[2], "slot", "0x" + parts[3], "function", "0x" + parts[4]}, nil
}
