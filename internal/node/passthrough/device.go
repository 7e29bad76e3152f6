// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Bus has the paths at which the kernel shows PCI devices.
type Bus struct {
	// Sys is the sysfs, Dev the folder of device files.
	Sys, Dev string
	// StateDir has notes of the drivers and owners of cards.
	StateDir string
	// Uses returns what this node would lose with an interface.
	Uses func(name string) ([]string, error)
}

// NewBus returns the bus of this machine.
func NewBus() *Bus {
	return &Bus{Sys: "/sys", Dev: "/dev", StateDir: "/run/ktsn/passthrough", Uses: Uses}
}

// Device is a PCI device as the kernel shows it.
type Device struct {
	// Address is domain:bus:slot.function, in hexadecimal digits.
	Address string `json:"address"`
	// Vendor, Product and Class are numbers of the PCI specification, the class with subclass and interface.
	Vendor  uint32 `json:"vendor"`
	Product uint32 `json:"product"`
	Class   uint32 `json:"class"`
	// Driver is empty when none has it.
	Driver string `json:"driver,omitempty"`
	// Interfaces are the kernel's, in this network namespace.
	Interfaces []string `json:"interfaces,omitempty"`
	// VirtualFunctions are those that are enabled (SR-IOV).
	VirtualFunctions int `json:"virtual_functions,omitempty"`
	// Group is the IOMMU group, -1 when there is none.
	Group int `json:"iommu_group"`
	// Others are the other devices of the group.
	Others []Member `json:"others_in_group,omitempty"`
}

// Member is another device of an IOMMU group.
type Member struct {
	Address string `json:"address"`
	Class   uint32 `json:"class"`
	Driver  string `json:"driver,omitempty"`
}

// VFIO is the driver that gives a device to user space.
const VFIO = "vfio-pci"

var addressForm = regexp.MustCompile(`^(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])$`)

// ParseAddress returns the full form of a PCI address, which may lack its domain (0000).
func ParseAddress(text string) (string, error) {
	parts := addressForm.FindStringSubmatch(text)
	if parts == nil {
		return "", fmt.Errorf("%q is no PCI address; give one as `lspci -D` shows it, such as 0000:02:00.0", text)
	}
	domain := parts[1]
	if domain == "" {
		domain = "0000"
	}
	return strings.ToLower(fmt.Sprintf("%s:%s:%s.%s", domain, parts[2], parts[3], parts[4])), nil
}

// path returns the path of a device's file or folder in the sysfs.
func (b *Bus) path(address string, elements ...string) string {
	return filepath.Join(append([]string{b.Sys, "bus/pci/devices", address}, elements...)...)
}

// Read reads a device from the sysfs.
func (b *Bus) Read(address string) (*Device, error) {
	if _, err := os.Stat(b.path(address)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("this machine has no PCI device %s; `lspci -D` lists those that it has", address)
		}
		return nil, err
	}
	device := &Device{Address: address, Group: -1, Driver: b.driver(address)}
	var err error
	for name, to := range map[string]*uint32{"vendor": &device.Vendor, "device": &device.Product, "class": &device.Class} {
		if *to, err = b.number(address, name); err != nil {
			return nil, err
		}
	}
	if functions, err := b.number(address, "sriov_numvfs"); err == nil { // only of devices that can have some
		device.VirtualFunctions = int(functions)
	}
	device.Interfaces = b.interfaces(address)
	return device, b.readGroup(device)
}

// readGroup reads the IOMMU group and its other members.
func (b *Bus) readGroup(device *Device) error {
	to, err := os.Readlink(b.path(device.Address, "iommu_group"))
	if err != nil {
		return nil // there is none
	}
	if device.Group, err = strconv.Atoi(filepath.Base(to)); err != nil {
		return fmt.Errorf("the IOMMU group of %s is %q, and no number", device.Address, to)
	}
	for _, other := range names(b.path(device.Address, "iommu_group/devices")) {
		if other == device.Address {
			continue
		}
		class, err := b.number(other, "class")
		if err != nil {
			return err
		}
		device.Others = append(device.Others, Member{Address: other, Class: class, Driver: b.driver(other)})
	}
	return nil
}

// interfaces returns those of the device, or of devices that its driver makes, such as a virtio device. It does not
// follow links, which lead to other devices, nor folders with an address, which are devices behind a bridge.
func (b *Bus) interfaces(address string) []string {
	all := names(b.path(address, "net"))
	entries, err := os.ReadDir(b.path(address))
	if err != nil {
		return all
	}
	for _, entry := range entries {
		if entry.IsDir() && !addressForm.MatchString(entry.Name()) {
			all = append(all, names(b.path(address, entry.Name(), "net"))...)
		}
	}
	return all
}

// driver returns the driver of the device, or "".
func (b *Bus) driver(address string) string {
	to, err := os.Readlink(b.path(address, "driver"))
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}

func (b *Bus) number(address, name string) (uint32, error) {
	text, err := os.ReadFile(b.path(address, name))
	if err != nil {
		return 0, err
	}
	number, err := strconv.ParseUint(strings.TrimSpace(string(text)), 0, 32)
	if err != nil {
		return 0, fmt.Errorf("%s of %s: %w", name, address, err)
	}
	return uint32(number), nil
}

// names returns the sorted entries of a folder; none if it does not exist.
func names(folder string) []string {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	slices.Sort(all)
	return all
}
