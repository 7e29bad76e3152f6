// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

const card = "0000:02:00.0"

// machine is a sysfs of plain files: it shows devices, and no kernel acts on what is written there. Binding itself is tested in
// test/vm, with a real one.
type machine struct {
	*Bus
	t *testing.T
}

func newMachine(t *testing.T) *machine {
	dir := t.TempDir()
	none := func(string) ([]string, error) { return nil, nil }
	return &machine{&Bus{Sys: filepath.Join(dir, "sys"), Dev: filepath.Join(dir, "dev"), StateDir: filepath.Join(dir, "state"), Uses: none}, t}
}

func (m *machine) file(path, content string) {
	m.t.Helper()
	testlab.Must(m.t, os.MkdirAll(filepath.Dir(path), 0o755))
	testlab.Must(m.t, os.WriteFile(path, []byte(content), 0o644))
}

func (m *machine) link(path, to string) {
	m.t.Helper()
	testlab.Must(m.t, os.MkdirAll(filepath.Dir(path), 0o755))
	testlab.Must(m.t, os.Symlink(to, path))
}

// add adds a device; an empty driver or group: none.
func (m *machine) add(address, class, driver, group string, interfaces ...string) {
	m.t.Helper()
	for name, content := range map[string]string{"vendor": "0x8086\n", "device": "0x10c9\n", "class": class + "\n", "driver_override": ""} {
		m.file(m.path(address, name), content)
	}
	if driver != "" {
		m.link(m.path(address, "driver"), filepath.Join(m.Sys, "bus/pci/drivers", driver))
	}
	if group != "" {
		folder := filepath.Join(m.Sys, "kernel/iommu_groups", group)
		m.link(m.path(address, "iommu_group"), folder)
		m.file(filepath.Join(folder, "devices", address), "")
	}
	for _, name := range interfaces {
		m.file(m.path(address, "net", name, "ifindex"), "2\n")
	}
}

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]string{
		"0000:02:00.0": card, "02:00.0": card, "0000:0A:1f.7": "0000:0a:1f.7", "10000:02:00.1": "10000:02:00.1",
		"": "", "02:00": "", "02:00.8": "", "0000:02:00.0x": "", "../../x": "", "eth0": "",
	} {
		got, err := ParseAddress(text)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q is %q, %v, and should be %q", text, got, err, want)
		}
	}
}

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		make func(*machine)
		uses []string
		want []string // a part of each reason
	}{
		"alone in its group": {make: func(m *machine) { m.add(card, "0x020000", "igb", "7", "eth1") }},
		"beside a bridge in its group": {make: func(m *machine) {
			m.add(card, "0x020000", "igb", "7", "eth1")
			m.add("0000:00:1c.0", "0x060400", "pcieport", "7")
		}},
		"beside one that was given away": {make: func(m *machine) {
			m.add(card, "0x020000", "igb", "7", "eth1")
			m.add("0000:02:00.1", "0x020000", VFIO, "7")
		}},
		"beside one without a driver": {make: func(m *machine) {
			m.add(card, "0x020000", "igb", "7", "eth1")
			m.add("0000:02:00.1", "0x020000", "", "7")
		}},
		"given away already": {make: func(m *machine) { m.add(card, "0x020000", VFIO, "7") }},
		"beside a disk in its group": {make: func(m *machine) {
			m.add(card, "0x020000", "igb", "7", "eth1")
			m.add("0000:03:00.0", "0x010601", "ahci", "7")
		}, want: []string{"0000:03:00.0 (driver ahci)"}},
		"without an IOMMU":            {make: func(m *machine) { m.add(card, "0x020000", "igb", "", "eth1") }, want: []string{"no IOMMU"}},
		"no network card":             {make: func(m *machine) { m.add(card, "0x010601", "ahci", "7") }, want: []string{"class is 0x010601"}},
		"with its interface in a pod": {make: func(m *machine) { m.add(card, "0x020000", "igb", "7") }, want: []string{"another one, such as a pod's"}},
		"with addresses":              {make: func(m *machine) { m.add(card, "0x020000", "igb", "7", "eth1") }, uses: []string{"eth1 has the address 192.0.2.1/24", "eth1 has a default route"}, want: []string{"192.0.2.1/24, eth1 has a default route"}},
		"with virtual functions": {make: func(m *machine) {
			m.add(card, "0x020000", "igb", "7", "eth1")
			m.file(m.path(card, "sriov_numvfs"), "4\n")
		}, want: []string{"4 virtual functions"}},
		"that could have virtual functions": {make: func(m *machine) {
			m.add(card, "0x020000", "igb", "7", "eth1")
			m.file(m.path(card, "sriov_numvfs"), "0\n")
		}},
		"a virtio device with addresses": {make: func(m *machine) {
			m.add(card, "0x020000", "virtio-pci", "7")
			m.file(m.path(card, "virtio1/net/eth1/ifindex"), "2\n")
		}, uses: []string{"eth1 has a default route"}, want: []string{"eth1 has a default route"}},
		"with nothing that is right": {make: func(m *machine) { m.add(card, "0x010601", "ahci", "") }, want: []string{"no network card", "no IOMMU"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.Uses = func(string) ([]string, error) { return test.uses, nil }
			test.make(m)
			_, reasons, err := m.Check(card)
			testlab.Must(t, err)
			if len(reasons) != len(test.want) {
				t.Fatalf("the reasons are %q, and should be of %q", reasons, test.want)
			}
			for i, part := range test.want {
				if !strings.Contains(reasons[i], part) {
					t.Errorf("a reason is %q, and should speak of %q", reasons[i], part)
				}
			}
			if len(test.want) == 0 {
				return
			}
			if _, err := m.Bind(t.Context(), card); err == nil || !strings.Contains(err.Error(), reasons[0]) {
				t.Errorf("it was bound: %v", err)
			}
			if text, _ := os.ReadFile(m.path(card, "driver_override")); len(text) != 0 {
				t.Errorf("something was changed before it was refused: driver_override %q", text)
			}
		})
	}
}

func TestReadMissingDevice(t *testing.T) {
	if _, _, err := newMachine(t).Check(card); err == nil || !strings.Contains(err.Error(), "no PCI device "+card) {
		t.Errorf("the error is %v", err)
	}
}

// The kernel of plain files gives the card to nobody, as one whose vfio-pci refuses it.
func TestBindUndo(t *testing.T) {
	m := newMachine(t)
	m.add(card, "0x020000", "igb", "7", "eth1")
	m.file(filepath.Join(m.Sys, "bus/pci/drivers/igb/unbind"), "")
	m.file(filepath.Join(m.Sys, "bus/pci/drivers", VFIO, "bind"), "")
	m.file(filepath.Join(m.Sys, "bus/pci/drivers_probe"), "")
	if _, err := m.Bind(t.Context(), card); err == nil || !strings.Contains(err.Error(), "the kernel gave it to \"igb\"") {
		t.Errorf("the error is %v", err)
	}
	if text, _ := os.ReadFile(m.path(card, "driver_override")); !strings.HasPrefix(string(text), "\n") {
		t.Errorf("the override stays: %q", text)
	}
	if got := m.noted(card); got != "igb" {
		t.Errorf("the driver is noted as %q", got)
	}
}

func TestInterfacesBehindBridge(t *testing.T) {
	m := newMachine(t)
	m.add(card, "0x060400", "pcieport", "7")
	m.file(m.path(card, "0000:03:00.0/net/eth9/ifindex"), "9\n")
	device, err := m.Read(card)
	if err != nil || slices.Contains(device.Interfaces, "eth9") {
		t.Errorf("%+v, %v", device, err)
	}
}

func TestClaim(t *testing.T) {
	m := newMachine(t)
	m.add(card, "0x020000", "igb", "7", "eth1")
	for _, step := range []struct {
		owner   string
		claimed bool
	}{{"first", true}, {"first", true}, {"second", false}} {
		if claimed, err := m.Claim(card, step.owner); err != nil || claimed != step.claimed {
			t.Errorf("%s claims it: %v, %v", step.owner, claimed, err)
		}
	}
	if _, err := m.Unbind(card); err == nil || !strings.Contains(err.Error(), card+" belongs to first") {
		t.Errorf("the administrator takes it: %v", err)
	}
	// Another owner's card cannot be given back.
	if err := m.GiveBack(card, "second"); err != nil || m.Claimed(card) != "first" {
		t.Errorf("another gives it back: %v; it is of %q", err, m.Claimed(card))
	}
	if err := m.GiveBack(card, "first"); err != nil || m.Claimed(card) != "" {
		t.Errorf("its owner gives it back: %v; it is of %q", err, m.Claimed(card))
	}
	if claimed, err := m.Claim(card, "first"); err != nil || !claimed {
		t.Fatal(claimed, err)
	}
	if _, err := m.UnbindAnyway(card); err != nil || m.Claimed(card) != "" {
		t.Errorf("the administrator takes it anyway: %v; it is of %q", err, m.Claimed(card))
	}
	if claimed, err := m.Claim("0000:ff:00.0", "first"); err != nil || !claimed {
		t.Errorf("one that is gone is claimed: %v, %v", claimed, err)
	}
	if err := m.GiveBack("0000:ff:00.0", "first"); err != nil || m.Claimed("0000:ff:00.0") != "" {
		t.Errorf("one that is gone is given back: %v", err)
	}
}

func TestGivenAway(t *testing.T) {
	const sibling = "0000:02:00.1"
	for name, test := range map[string]struct {
		class, driver, owner, want string
	}{
		"the node has the other one":                      {class: "0x020000", driver: "igb"},
		"nobody has it":                                   {class: "0x020000"},
		"it is a bridge":                                  {class: "0x060400", driver: VFIO},
		"a program has it by vfio-pci":                    {class: "0x020000", driver: VFIO, want: sibling + " (driver vfio-pci)"},
		"it belongs to somebody who has not bound it yet": {class: "0x020000", driver: "igb", owner: "pod", want: sibling + " (of pod)"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.add(card, "0x020000", "igb", "7", "eth1")
			m.add(sibling, test.class, test.driver, "7")
			if test.owner != "" {
				if _, err := m.Claim(sibling, test.owner); err != nil {
					t.Fatal(err)
				}
			}
			device, err := m.Read(card)
			testlab.Must(t, err)
			if got := strings.Join(m.GivenAway(device), " "); got != test.want {
				t.Errorf("it says %q, want %q", got, test.want)
			}
		})
	}
}
