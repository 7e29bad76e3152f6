// SPDX-License-Identifier: Apache-2.0

package ovs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// card is a PCI device of a made-up machine.
type card struct {
	class, driver string
	group         bool
}

// machineWith returns a machine with cards, by their PCI addresses.
func machineWith(t *testing.T, cards map[string]card) *machine {
	t.Helper()
	m := &machine{sysfs: t.TempDir(), xdpSocket: func() error { return nil }}
	for address, card := range cards {
		dir := filepath.Join(m.sysfs, "bus/pci/devices", address)
		m.write(t, filepath.Join("bus/pci/devices", address, "class"), card.class)
		if card.driver != "" {
			link(t, "../../../../bus/pci/drivers/"+card.driver, filepath.Join(dir, "driver"))
		}
		if card.group {
			m.write(t, "kernel/iommu_groups/7/type", "DMA")
			link(t, "../../../../kernel/iommu_groups/7", filepath.Join(dir, "iommu_group"))
		}
	}
	return m
}

func (m *machine) write(t *testing.T, path, text string) {
	t.Helper()
	path = filepath.Join(m.sysfs, path)
	testlab.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testlab.Must(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
}

func link(t *testing.T, target, path string) {
	t.Helper()
	testlab.Must(t, os.Symlink(target, path))
}

func TestCheckDevice(t *testing.T) {
	const ethernet = "0x020000"
	m := machineWith(t, map[string]card{
		"0000:01:00.0": {ethernet, "vfio-pci", true},
		"0000:01:00.1": {ethernet, "vfio-pci", false},
		"0000:02:00.0": {ethernet, "e1000e", true},
		"0000:03:00.0": {ethernet, "mlx5_core", true},
		"0000:04:00.0": {ethernet, "", true},
		"0000:05:00.0": {ethernet, "uio_pci_generic", false},
		"0000:06:00.0": {"0x030000", "vfio-pci", true},
	})
	for device, want := range map[string]string{
		"0000:01:00.0":           "",
		"01:00.0":                "",
		"0000:01:00.0,rx_skip=1": "",
		"0000:03:00.0":           "",
		"0000:05:00.0":           "",
		"net_tap0,iface=tap7":    "",
		"net_af_xdp0,iface=lo":   "",
		"0000:01:00.1":           "the card is in no IOMMU group",
		"02:00.0":                "the kernel's driver e1000e has this card, and DPDK needs vfio-pci; bind it first: modprobe vfio-pci && dpdk-devbind.py --bind=vfio-pci 0000:02:00.0",
		"0000:04:00.0":           "no driver has this card",
		"0000:06:00.0":           "is no network card (its class is 0x030000)",
		"0000:ff:1f.7":           "there is no such PCI device; see `lspci -D`",
		"net_af_xdp0":            "name the interface",
		"net_af_xdp0,iface=no9":  "there is no interface no9",
	} {
		t.Run(device, func(t *testing.T) {
			testlab.Must(t, checkDeviceForm(device))
			err := m.checkDevice(device)
			if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "--device "+device+": ")) {
				t.Errorf("it says %v, want %q", err, want)
			}
		})
	}
	t.Run("noiommu mode", func(t *testing.T) {
		m.write(t, "module/vfio/parameters/enable_unsafe_noiommu_mode", "Y")
		if err := m.checkDevice("0000:01:00.1"); err != nil {
			t.Error(err)
		}
	})
	t.Run("kernel without XDP sockets", func(t *testing.T) {
		m.xdpSocket = func() error { return unix.EAFNOSUPPORT }
		err := m.checkDevice("net_af_xdp0,iface=lo")
		if want := "needs CONFIG_XDP_SOCKETS); use --interface lo instead"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it says %v, want %q", err, want)
		}
	})
}

func TestCheckDeviceForm(t *testing.T) {
	for _, device := range []string{"eno1", "0000:01:00", "0000:01:00.8", "01:20.0", "af_xdp0,iface=eno1"} {
		plan := validPlan()
		plan.Device, plan.Interface = device, ""
		if err := plan.Check(); err == nil || !strings.Contains(err.Error(), "--device "+device+": give a PCI address such as") {
			t.Errorf("%s: Check returns %v", device, err)
		}
	}
}
