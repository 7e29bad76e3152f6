// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"net/netip"
	"strings"
	"testing"
)

func TestHardwareAddress(t *testing.T) {
	for text, want := range map[string]string{
		"10.42.1.2":        "0a:58:0a:2a:01:02",
		"255.255.255.254":  "0a:58:ff:ff:ff:fe",
		"::ffff:10.42.1.2": "0a:58:0a:2a:01:02",
		"fd00:42::2":       "0a:58:80:fd:64:2d",
	} {
		if got := HardwareAddress(netip.MustParseAddr(text)).String(); got != want {
			t.Errorf("%s gives %s, want %s", text, got, want)
		}
	}
	if a, b := HardwareAddress(netip.MustParseAddr("fd00:42::2")), HardwareAddress(netip.MustParseAddr("fd00:42::3")); a.String() == b.String() {
		t.Errorf("two addresses give %s", a)
	}
}

func TestPortName(t *testing.T) {
	names := map[string]Attachment{}
	for _, attachment := range []Attachment{
		{Network: "a", ContainerID: "bc", Interface: "d"},
		{Network: "ab", ContainerID: "c", Interface: "d"},
		{Network: "a", ContainerID: "b", Interface: "cd"},
		{Network: strings.Repeat("n", 100), ContainerID: strings.Repeat("c", 64), Interface: "tsn0"},
	} {
		name := attachment.PortName()
		if len(name) > 15 || !strings.HasPrefix(name, portPrefix) {
			t.Errorf("%+v is called %q", attachment, name)
		}
		if other, there := names[name]; there {
			t.Errorf("%+v and %+v are both called %s", attachment, other, name)
		}
		names[name] = attachment
		attachment.Identity = "whoever"
		if attachment.PortName() != name {
			t.Errorf("the name of %+v depends on the identity", attachment)
		}
	}
}

func TestDefaultNames(t *testing.T) {
	for _, name := range []string{BridgeName(MaxVNI), TunnelName(MaxVNI)} {
		if len(name) > 15 {
			t.Errorf("%s is too long for an interface", name)
		}
	}
}

func TestAlias(t *testing.T) {
	attachment := Attachment{Network: "tsn", ContainerID: "c1", Interface: "tsn0", Identity: "uid"}
	for note, want := range map[string]string{"": "", "tap,1": "tap,1", "a folder with spaces": "a folder with spaces", strings.Repeat("n", 240): NoteLost} {
		port := Port{Attachment: attachment, Note: note}
		got, read, ok := parseAlias(port.alias())
		if !ok || got != attachment || read != want || len(port.alias()) > maxAliasBytes {
			t.Errorf("%q is read as %+v, %q, %v", port.alias(), got, read, ok)
		}
	}
	for _, text := range []string{"", "eth0", "tsn-cni:2 tsn c1 tsn0 uid", "tsn-cni:1 tsn c1 tsn0"} {
		if got, _, ok := parseAlias(text); ok {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	long := attachment
	long.Network = strings.Repeat("n", 300)
	if attachment.Check() != nil || long.Check() == nil {
		t.Errorf("Check says %v and %v", attachment.Check(), long.Check())
	}
}
