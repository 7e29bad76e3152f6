// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"net/netip"
	"strings"
	"testing"
)

func TestCheckMachine(t *testing.T) {
	right := Machine{Name: "plc-1", Network: "tsn", Device: "tap", Class: "record", Queues: 4, VCPUs: 2, Owner: -1}
	for name, test := range map[string]struct {
		change func(*Machine)
		part   string
	}{
		"valid":                         {change: func(*Machine) {}},
		"one queue and one processor":   {change: func(m *Machine) { m.Queues, m.VCPUs = 1, 1 }},
		"capitals in name":              {change: func(m *Machine) { m.Name = "PLC" }, part: `"PLC" is no name`},
		"long name":                     {change: func(m *Machine) { m.Name = "abcdefghijk" }, part: "up to 10"},
		"path as name":                  {change: func(m *Machine) { m.Name = "../x" }, part: "is no name"},
		"no network":                    {change: func(m *Machine) { m.Network = "" }, part: "no network"},
		"no queue":                      {change: func(m *Machine) { m.Queues = 0 }, part: "0 queues"},
		"too many queues":               {change: func(m *Machine) { m.Queues = 9 }, part: "9 queues"},
		"several queues, one processor": {change: func(m *Machine) { m.VCPUs = 1 }, part: "4 queues need a machine with at least 2 virtual processors"},
		"no processor":                  {change: func(m *Machine) { m.Queues, m.VCPUs = 1, 0 }, part: "less than 1"},
		"unknown device":                {change: func(m *Machine) { m.Device = "macvtap" }, part: `"macvtap" is no device of a virtual machine; give tap or vhost-user`},
		"unknown class":                 {change: func(m *Machine) { m.Class = "dscp" }, part: `"dscp" does not say the class of a frame; give one of record, pcp, queue`},
		"class of single queue":         {change: func(m *Machine) { m.Class, m.Queues = "queue", 1 }, part: "all frames would be of one class"},
		"multicast hardware address":    {change: func(m *Machine) { m.Address = "01:00:5e:00:00:01" }, part: "no hardware address of one"},
		"invalid hardware address":      {change: func(m *Machine) { m.Address = "x" }, part: `"x"`},
	} {
		m := right
		test.change(&m)
		err := m.Check()
		if (err == nil) != (test.part == "") || (err != nil && !strings.Contains(err.Error(), test.part)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestArguments(t *testing.T) {
	m := Machine{
		Name: "plc-1", Device: "tap", Queues: 4, VCPUs: 2, Tap: "ktsn-plc-1", Address: "0a:58:0a:2a:01:02", MTU: 1450, Clock: "/run/ktsn/vm/plc-1.clock.sock",
		Prefixes: []netip.Prefix{netip.MustParsePrefix("10.42.1.2/16")},
	}
	for _, part := range []string{"-smp 2", "ifname=ktsn-plc-1", "queues=4", "mq=on,vectors=10", "mac=0a:58:0a:2a:01:02", "host_mtu=1450", "path=/run/ktsn/vm/plc-1.clock.sock"} {
		if !strings.Contains(m.QEMU(), part) {
			t.Errorf("QEMU's lack %q:\n%s", part, m.QEMU())
		}
	}
	for _, part := range []string{"<vcpu>2</vcpu>", "<target dev='ktsn-plc-1' managed='no'/>", "queues='4'", "<mac address='0a:58:0a:2a:01:02'/>", "<mtu size='1450'/>"} {
		if !strings.Contains(m.Libvirt(), part) {
			t.Errorf("libvirt's lack %q:\n%s", part, m.Libvirt())
		}
	}
	m.Device, m.Socket = "vhost-user", "/run/ktsn/pods/vm-plc-1/tsn0.vhost.sock"
	for _, part := range []string{"memory-backend-memfd,id=plc-1-memory,size=SIZE,share=on -numa node,memdev=plc-1-memory", "path=" + m.Socket + ",reconnect=1",
		"vhost-user,id=plc-1,chardev=plc-1-vhost,queues=4", "mq=on,vectors=10", "host_mtu=1450"} {
		if !strings.Contains(m.QEMU(), part) {
			t.Errorf("QEMU's lack %q:\n%s", part, m.QEMU())
		}
	}
	for _, part := range []string{"<access mode='shared'/>", "<source type='unix' path='" + m.Socket + "' mode='client'>", "<driver queues='4'/>", "<mtu size='1450'/>"} {
		if !strings.Contains(m.Libvirt(), part) {
			t.Errorf("libvirt's lack %q:\n%s", part, m.Libvirt())
		}
	}
	m.Device, m.Queues = "tap", 1
	if text := m.QEMU() + m.Libvirt(); strings.Contains(text, "queues=") || strings.Contains(text, "mq=on") {
		t.Errorf("with one queue they are\n%s", text)
	}
	if got, want := m.Guest("eth0"), "ip address add 10.42.1.2/16 dev eth0\nip link set eth0 mtu 1450 up\nktsn-guest run --interface eth0\n"; got != want {
		t.Errorf("the guest's commands are\n%s", got)
	}
}
