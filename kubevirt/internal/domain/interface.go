// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/beevik/etree"
)

// Interface is a network device of the machine, with a tap or a socket.
type Interface struct {
	// Name is the name by which KubeVirt finds it.
	Name string
	// Tap is an existing device of the kernel.
	Tap string
	// Socket is the socket of a vhost-user back end, which listens.
	Socket string
	// Address is the hardware address, Model libvirt's name of the model.
	Address, Model string
	MTU            int
	// Queues is the number of pairs.
	Queues int
	// libvirt chooses if PCIAddress is "" and the numbers are 0.
	PCIAddress string
	ACPIIndex  int
	BootOrder  uint
	Down       bool
}

// aliasPrefix begins the aliases of devices that users choose.
const aliasPrefix = "ua-"

// segmentation are libvirt's names of the offloads that neither tap nor relay completes. (Checksums are completed.)
var segmentation = []string{"gso", "tso4", "tso6", "ecn", "ufo"}

// SetInterface adds a network device, or replaces the one with its name.
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
		// An upgrade of the node may replace the back end.
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

// addDriver sets the features that QEMU offers the machine. With vhost-user the relay decides them, except for the
// queues.
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
		if name != "gso" { // the machine only has switches for the others
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
