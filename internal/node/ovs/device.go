// SPDX-License-Identifier: Apache-2.0

package ovs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
)

// machine gives access to the machine's hardware; tests replace it.
type machine struct {
	sysfs string
	// xdpSocket fails if the kernel has no XDP sockets.
	xdpSocket func() error
}

var thisMachine = machine{sysfs: "/sys", xdpSocket: tryXDPSocket}

// pciAddress matches a PCI address with or without its domain, and optional arguments for the driver.
var pciAddress = regexp.MustCompile(`^([0-9a-fA-F]{4}:)?([0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7])(,.*)?$`)

// bifurcated are kernel drivers that share a card with DPDK.
var bifurcated = []string{"mlx4_core", "mlx5_core"}

// passing are drivers that give a card to DPDK.
var passing = []string{"vfio-pci", "uio_pci_generic", "igb_uio"}

func checkDeviceForm(device string) error {
	if device == "" || pciAddress.MatchString(device) || strings.HasPrefix(device, "net_") || strings.HasPrefix(device, "class=") {
		return nil
	}
	return fmt.Errorf("--device %s: give a PCI address such as 0000:01:00.0, or a device of DPDK's such as net_af_xdp0,iface=eno1", device)
}

// checkDevice fails if DPDK cannot use the card.
func (m *machine) checkDevice(device string) error {
	var err error
	switch parts := pciAddress.FindStringSubmatch(device); {
	case strings.HasPrefix(device, "net_af_xdp"):
		err = m.checkXDP(device)
	case len(parts) == 0: // another device of DPDK's
	case parts[1] == "":
		err = m.checkPCI("0000:" + strings.ToLower(parts[2]))
	default:
		err = m.checkPCI(strings.ToLower(parts[1] + parts[2]))
	}
	if err != nil {
		return fmt.Errorf("--device %s: %w", device, err)
	}
	return nil
}

func tryXDPSocket() error {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

func (m *machine) checkXDP(device string) error {
	name := ""
	for _, argument := range strings.Split(device, ",")[1:] {
		if value, ok := strings.CutPrefix(argument, "iface="); ok {
			name = value
		}
	}
	if name == "" {
		return errors.New("name the interface, such as net_af_xdp0,iface=eno1")
	}
	if link, err := netdev.Find(name); err != nil || link == nil {
		return errors.Join(err, fmt.Errorf("there is no interface %s; see `ip link`", name))
	}
	if err := m.xdpSocket(); err != nil {
		return fmt.Errorf("this kernel has no XDP sockets (%w; it needs CONFIG_XDP_SOCKETS); use --interface %s instead", err, name)
	}
	return nil
}

func (m *machine) checkPCI(address string) error {
	dir := filepath.Join(m.sysfs, "bus", "pci", "devices", address)
	class, err := os.ReadFile(filepath.Join(dir, "class"))
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("there is no such PCI device; see `lspci -D`")
	}
	if err != nil {
		return err
	}
	if kind := strings.TrimSpace(string(class)); !strings.HasPrefix(kind, "0x02") {
		return fmt.Errorf("this PCI device is no network card (its class is %s); see `lspci -D`", kind)
	}
	return m.checkDriver(dir, address)
}

func (m *machine) checkDriver(dir, address string) error {
	bind := "bind it first: modprobe vfio-pci && dpdk-devbind.py --bind=vfio-pci " + address
	target, err := os.Readlink(filepath.Join(dir, "driver"))
	driver := filepath.Base(target)
	switch {
	case err != nil:
		return errors.New("no driver has this card, and DPDK needs vfio-pci; " + bind)
	case driver == "vfio-pci":
		return m.checkIOMMU(dir)
	case slices.Contains(passing, driver) || slices.Contains(bifurcated, driver):
		return nil
	}
	return fmt.Errorf("the kernel's driver %s has this card, and DPDK needs vfio-pci; %s, after which the kernel has its interface no more",
		driver, bind)
}

func (m *machine) checkIOMMU(dir string) error {
	const unsafe = "module/vfio/parameters/enable_unsafe_noiommu_mode"
	if _, err := os.Stat(filepath.Join(dir, "iommu_group")); err == nil {
		return nil
	}
	if mode, err := os.ReadFile(filepath.Join(m.sysfs, unsafe)); err == nil && strings.TrimSpace(string(mode)) == "Y" {
		return nil
	}
	return errors.New("the card is in no IOMMU group, which vfio-pci needs; switch the IOMMU on " +
		"(in the firmware, and intel_iommu=on for the kernel), or do without its protection: echo Y > /sys/" + unsafe)
}
