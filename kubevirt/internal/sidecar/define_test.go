// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/beevik/etree"
)

// fakePod is a pod in which tsn-cni has created these interfaces.
type fakePod map[string]link

func (p fakePod) link(name string) (link, bool) {
	entry, there := p[name]
	return entry, there
}

var (
	tsn   = link{"0a:58:0a:2a:01:02", 1450}
	blue  = fakePod{"eth0": {"02:00:00:00:00:09", 1500}, "pod16477688c0e": tsn, "tap16477688c0e": {}}
	first = fakePod{"eth0": {"02:00:00:00:00:09", 1500}, "tsn0": tsn, "taptsn0": {}}
)

func example(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// with returns an instance with another annotation.
func with(instance []byte, annotation, value string) []byte {
	return bytes.Replace(instance, []byte(`"annotations":{`), []byte(`"annotations":{"kubernetsn.io/`+annotation+`":"`+value+`",`), 1)
}

// taken removes the added elements, and returns them and the rest, both after a round trip through the XML parser.
func taken(t *testing.T, text []byte, paths ...string) (added []string, rest string) {
	t.Helper()
	document := etree.NewDocument()
	if err := document.ReadFromBytes(bytes.TrimSpace(text)); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		elements := document.FindElements(path)
		if len(elements) != 1 {
			t.Fatalf("%s is there %d times in\n%s", path, len(elements), text)
		}
		doc := etree.NewDocument()
		doc.SetRoot(elements[0].Copy())
		written, err := doc.WriteToString()
		if err != nil {
			t.Fatal(err)
		}
		added = append(added, written)
		elements[0].Parent().RemoveChild(elements[0])
	}
	rest, err := document.WriteToString()
	if err != nil {
		t.Fatal(err)
	}
	return added, rest
}

const (
	blueDevice = `./domain/devices/interface/alias[@name='ua-blue']/..`
	firstOne   = `./domain/devices/interface/alias[@name='ua-tsn0']/..`
	clock      = `./domain/devices/channel/target[@name='org.kubernetsn.clock']/..`
	memory     = `./domain/memoryBacking`
	override   = `./domain/qemu:override`
	access     = `./domain/memoryBacking/access`
)

const (
	offloads   = `<host gso="off" tso4="off" tso6="off" ecn="off" ufo="off"/><guest tso4="off" tso6="off" ecn="off" ufo="off"/></driver>`
	overridden = `<qemu:override><qemu:device alias="ua-blue"><qemu:frontend><qemu:property name="host_mtu" type="unsigned" value="1426"/></qemu:frontend></qemu:device></qemu:override>`
	clockThere = `<channel type="unix"><source mode="bind" path="/hooks/hook-sidecar-0/userdata/clock.sock"/><target type="virtio" name="org.kubernetsn.clock"/></channel>`
)

func TestDefineAddsInterfaces(t *testing.T) {
	for name, test := range map[string]struct {
		instance    []byte
		domain      string
		pod         fakePod
		paths, want []string
	}{
		"by the binding, with a tap": {
			example(t, "binding.json"), "binding.xml", blue, []string{blueDevice, clock},
			[]string{`<interface type="ethernet"><mac address="0a:58:0a:2a:01:02"/><target dev="tap16477688c0e" managed="no"/>` +
				`<model type="virtio-non-transitional"/><mtu size="1450"/><driver>` + offloads + `<alias name="ua-blue"/><rom enabled="no"/></interface>`, clockThere},
		},
		"by the annotation alone, with several queues": {
			with(example(t, "annotation.json"), "device-queues", "8"), "annotation.xml", first, []string{firstOne, clock},
			[]string{`<interface type="ethernet"><mac address="0a:58:0a:2a:01:02"/><target dev="taptsn0" managed="no"/>` +
				`<model type="virtio-non-transitional"/><mtu size="1450"/><driver queues="2">` + offloads + `<alias name="ua-tsn0"/><rom enabled="no"/></interface>`, clockThere},
		},
		"by the binding and the annotation, once": {
			bytes.Replace(example(t, "binding.json"), []byte(`"status":{`), []byte(`"status":{"interfaces":[{"name":"blue","podInterfaceName":"tsn0"}],`), 1),
			"binding.xml", first, []string{blueDevice, clock},
			[]string{`<interface type="ethernet"><mac address="0a:58:0a:2a:01:02"/><target dev="taptsn0" managed="no"/>` +
				`<model type="virtio-non-transitional"/><mtu size="1450"/><driver>` + offloads + `<alias name="ua-blue"/><rom enabled="no"/></interface>`, clockThere},
		},
		"with huge pages, by vhost-user": {
			bytes.Replace(example(t, "hugepages.json"), []byte(`"tap"`), []byte(`"vhost-user"`), 1), "hugepages.xml", blue, []string{blueDevice, clock, override, access},
			[]string{`<interface type="vhostuser"><mac address="0a:58:0a:2a:01:02"/><source type="unix" path="/run/ktsn/pod16477688c0e.vhost.sock" mode="client">` +
				`<reconnect enabled="yes" timeout="1"/></source><model type="virtio-non-transitional"/><driver/><alias name="ua-blue"/><rom enabled="no"/></interface>`,
				clockThere, overridden, `<access mode="shared"/>`},
		},
		"by vhost-user": {
			bytes.Replace(example(t, "alone.json"), []byte(`"tap"`), []byte(`"vhost-user"`), 1), "alone.xml", blue, []string{blueDevice, clock, override, memory},
			[]string{`<interface type="vhostuser"><mac address="0a:58:0a:2a:01:02"/><source type="unix" path="/run/ktsn/pod16477688c0e.vhost.sock" mode="client">` +
				`<reconnect enabled="yes" timeout="1"/></source><model type="virtio-non-transitional"/><driver/><alias name="ua-blue"/><rom enabled="no"/></interface>`,
				clockThere, overridden, `<memoryBacking><source type="memfd"/><access mode="shared"/></memoryBacking>`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			definer := &Definer{Binding: "kubernetsn", Clock: "/hooks/hook-sidecar-0/userdata/clock.sock", pod: test.pod}
			before := example(t, test.domain)
			after, err := definer.Define(test.instance, before)
			if err != nil {
				t.Fatal(err)
			}
			added, rest := taken(t, after, test.paths...)
			for i := range test.want {
				if added[i] != test.want[i] {
					t.Errorf("got\n%s\nwant\n%s", added[i], test.want[i])
				}
			}
			if _, was := taken(t, before); rest != was {
				t.Errorf("the rest is\n%s\nand was\n%s", rest, was)
			}
		})
	}
}

func TestDefineWithoutNetwork(t *testing.T) {
	instance := bytes.ReplaceAll(example(t, "binding.json"), []byte("kubernetsn"), []byte("another"))
	domain := example(t, "binding.xml")
	got, err := (&Definer{Binding: "kubernetsn", pod: blue}).Define(instance, domain)
	if err != nil || !bytes.Equal(got, domain) {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestDefineErrors(t *testing.T) {
	binding, annotation := example(t, "binding.json"), example(t, "annotation.json")
	for want, test := range map[string]struct {
		instance []byte
		domain   string
		pod      fakePod
	}{
		"2 queues (kubernetsn.io/device-queues) need a virtual machine with at least 2 processors, and it has 1: ": {
			with(example(t, "single.json"), "device-queues", "2"), "single.xml", blue},
		"a virtual machine on a network of KuberneTSN cannot be migrated: ":                       {example(t, "target.json"), "binding.xml", blue},
		"interface blue of the virtual machine: the pod has no interface pod16477688c0e; attach ": {binding, "binding.xml", fakePod{"eth0": {}}},
		"interface blue of the virtual machine: the pod's interface pod16477688c0e has no tap tap16477688c0e; ": {
			binding, "binding.xml", fakePod{"pod16477688c0e": tsn}},
		"the virtual machine is to be on a network (kubernetsn.io/network), and its pod has no interface tsn0; see ": {
			annotation, "annotation.xml", fakePod{"eth0": {}}},
		"interface blue of the virtual machine is to have the hardware address 02:00:00:00:00:05, and the pod's interface has 0a:58:0a:2a:01:02, ": {
			bytes.Replace(binding, []byte(`"name":"blue",`), []byte(`"name":"blue","macAddress":"02:00:00:00:00:05",`), 1), "binding.xml", blue},
		"read the domain's XML: ":            {binding, "binding.json", blue},
		"read the virtual machine instance:": {example(t, "binding.xml"), "binding.xml", blue},
		`annotation kubernetsn.io/device is "macvtap"; give tap, vhost-user, veth or vfio`: {
			bytes.Replace(annotation, []byte(`"tap"`), []byte(`"macvtap"`), 1), "annotation.xml", first},
	} {
		got, err := (&Definer{Binding: "kubernetsn", pod: test.pod}).Define(test.instance, example(t, test.domain))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
}
