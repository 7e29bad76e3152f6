// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"strings"
	"testing"
)

// edited returns a domain after a number of edits.
func edited(t *testing.T, text string, edit func(*Domain) error, times int) string {
	t.Helper()
	for range times {
		domain, err := Parse([]byte(text))
		if err == nil {
			err = edit(domain)
		}
		if err != nil {
			t.Fatal(err)
		}
		bytes, err := domain.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		text = string(bytes)
	}
	return text
}

func everything(d *Domain) error {
	d.ShareMemory()
	d.AddChannel("org.example", "/run/example.sock")
	if err := d.SetInterface(&Interface{Name: "green", Socket: "/run/green", Address: "02:00:00:00:00:02", Model: "virtio", MTU: 1426}); err != nil {
		return err
	}
	return d.SetInterface(&Interface{Name: "blue", Tap: "tap0", Address: "02:00:00:00:00:01", Model: "virtio", MTU: 1450, Queues: 2})
}

// foreign has parts that an editor can easily lose.
const foreign = `<?xml version="1.0"?>
<!-- of a hook before -->
<domain type="qemu" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0" xmlns:x="http://example.org/x">
  <name>a&amp;b &lt;c&gt;</name>
  <x:own x:attribute="1 &quot;2&quot;"><![CDATA[<raw> & ]]></x:own>
  <unknown><deep one="1"/>text<deep two="2"/>more</unknown>
  <devices><interface type="network"><alias name="ua-red"/><new/></interface></devices>
  <qemu:commandline><qemu:arg value="-newarg"/></qemu:commandline>
</domain>`

func TestUnknownElementsAreKept(t *testing.T) {
	got := edited(t, foreign, everything, 1)
	for _, part := range []string{
		`<?xml version="1.0"?>`, `<!-- of a hook before -->`, `xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0" xmlns:x="http://example.org/x"`,
		`<name>a&amp;b &lt;c&gt;</name>`, `<x:own x:attribute="1 &quot;2&quot;"><![CDATA[<raw> & ]]></x:own>`,
		`<unknown><deep one="1"/>text<deep two="2"/>more</unknown>`, `<interface type="network"><alias name="ua-red"/><new/></interface>`,
		`<qemu:commandline><qemu:arg value="-newarg"/></qemu:commandline>`,
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%s is not there any more:\n%s", part, got)
		}
	}
}

func TestEditingIsIdempotent(t *testing.T) {
	if once, twice := edited(t, foreign, everything, 1), edited(t, foreign, everything, 2); once != twice {
		t.Errorf("once:\n%s\ntwice:\n%s", once, twice)
	}
}

func TestSetInterfaceReplaces(t *testing.T) {
	got := edited(t, `<domain><devices><interface><alias name="ua-a"/></interface><interface><alias name="ua-blue"/><old/></interface>`+
		`<interface><alias name="ua-c"/></interface><disk/></devices></domain>`, everything, 1)
	first, second, third := strings.Index(got, "ua-a"), strings.Index(got, "ua-blue"), strings.Index(got, "ua-c")
	if strings.Contains(got, "old") || strings.Count(got, "ua-blue") != 1 || first > second || second > third || third > strings.Index(got, "<disk/>") {
		t.Errorf("got %s", got)
	}
}

func TestDeviceXML(t *testing.T) {
	const begin, end = `<domain><devices>`, `</devices></domain>`
	const namespace = ` xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0"`
	const overridden = `</devices><qemu:override><qemu:device alias="ua-blue"><qemu:frontend><qemu:property name="host_mtu" type="unsigned" value="1450"/>` +
		`</qemu:frontend></qemu:device></qemu:override></domain>`
	for name, test := range map[string]struct {
		device Interface
		want   string
	}{
		"a tap": {
			Interface{Name: "blue", Tap: "tap1", Address: "02:00:00:00:00:01", Model: "virtio", MTU: 1450, Queues: 1},
			`<interface type="ethernet"><mac address="02:00:00:00:00:01"/><target dev="tap1" managed="no"/><model type="virtio"/><mtu size="1450"/>` +
				`<driver><host gso="off" tso4="off" tso6="off" ecn="off" ufo="off"/><guest tso4="off" tso6="off" ecn="off" ufo="off"/></driver>` +
				`<alias name="ua-blue"/><rom enabled="no"/></interface>` + end,
		},
		"a socket": {
			Interface{
				Name: "blue", Socket: "/run/ktsn/tsn0.vhost.sock", Address: "02:00:00:00:00:01", Model: "virtio", MTU: 1450, Queues: 4,
				PCIAddress: "0000:02:01.0", ACPIIndex: 3, BootOrder: 2, Down: true,
			},
			`<interface type="vhostuser"><mac address="02:00:00:00:00:01"/><source type="unix" path="/run/ktsn/tsn0.vhost.sock" mode="client">` +
				`<reconnect enabled="yes" timeout="1"/></source><model type="virtio"/><driver queues="4"/><alias name="ua-blue"/><link state="down"/>` +
				`<acpi index="3"/><boot order="2"/><address type="pci" domain="0x0000" bus="0x02" slot="0x01" function="0x0"/></interface>` + overridden,
		},
	} {
		if got := edited(t, begin+end, func(d *Domain) error { return d.SetInterface(&test.device) }, 1); strings.Replace(got, namespace, "", 1) != begin+test.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, begin+test.want)
		}
	}
}

func TestShareMemory(t *testing.T) {
	for text, want := range map[string]string{
		`<domain/>`: `<domain><memoryBacking><source type="memfd"/><access mode="shared"/></memoryBacking></domain>`,
		`<domain><memoryBacking><hugepages/><source type="anonymous"/></memoryBacking></domain>`: `<domain><memoryBacking><hugepages/>` +
			`<source type="memfd"/><access mode="shared"/></memoryBacking></domain>`,
		`<domain><memoryBacking><source type="file"/><access mode="private"/></memoryBacking></domain>`: `<domain><memoryBacking>` +
			`<source type="file"/><access mode="shared"/></memoryBacking></domain>`,
		`<domain><memoryBacking><source type="memfd"/><access mode="shared"/></memoryBacking><cpu><numa><cell id="0"/><cell id="1" memAccess="private"/></numa></cpu></domain>`: `<domain>` +
			`<memoryBacking><source type="memfd"/><access mode="shared"/></memoryBacking><cpu><numa><cell id="0"/><cell id="1" memAccess="shared"/></numa></cpu></domain>`,
	} {
		if got := edited(t, text, func(d *Domain) error { d.ShareMemory(); return nil }, 1); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", text, got, want)
		}
	}
}

func TestProcessors(t *testing.T) {
	for text, want := range map[string]int{
		`<domain/>`: 1,
		`<domain><vcpu placement="static"> 4 </vcpu></domain>`: 4,
		`<domain><vcpu current="2">8</vcpu></domain>`:          2,
		`<domain><vcpu>8</vcpu><vcpus><vcpu id="0" enabled="yes"/><vcpu id="1" enabled="yes"/><vcpu id="2" enabled="no"/></vcpus></domain>`: 2,
		`<domain><vcpu>none</vcpu></domain>`: 0,
	} {
		domain, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := domain.Processors(); got != want || (err != nil) != (want == 0) {
			t.Errorf("%s has %d processors, %v; want %d", text, got, err, want)
		}
	}
}

func TestInvalidDomainIsRejected(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "read the domain's XML",
		"<domain><devices>":    "read the domain's XML",
		"<network/>":           "no domain of libvirt",
		"<domain/> and behind": "read the domain's XML",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	domain, err := Parse([]byte("<domain/>"))
	if err != nil {
		t.Fatal(err)
	}
	if err := domain.SetInterface(&Interface{Name: "blue", PCIAddress: "02:01.0"}); err == nil || !strings.Contains(err.Error(), `interface blue: "02:01.0" is no PCI address`) {
		t.Errorf("a short PCI address: %v", err)
	}
}
