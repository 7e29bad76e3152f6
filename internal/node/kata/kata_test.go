// SPDX-License-Identifier: Apache-2.0

package kata

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// asKata is a file as Kata's runtime reads it, with all that it knows of taps, vhost-user and VFIO: version 3.2x with pull request 13802,
// structs DanConfig to ARPNeighbor of runtime-rs, crates/resource/src/network/dan.rs. It ignores what it does not know; a field of another name would be lost.
const asKata = `{
	"netns": "/run/netns/pod",
	"devices": [{
		"name": "eth0", "guest_mac": "0a:58:0a:2a:01:02",
		"device": {"type": "host-tap", "tap_name": "tapeth0", "queue_num": 1, "queue_size": 0},
		"network_info": {
			"interface": {"ip_addresses": ["10.42.1.2/24"], "mtu": 1450, "ntype": "tuntap", "flags": 0},
			"routes": [{"dest": "10.1.0.0/16", "source": "10.42.1.2", "gateway": "10.42.1.1", "scope": 0, "flags": 0, "mtu": 0}],
			"neighbors": [{"ip_address": "10.42.1.1", "hardware_addr": "0a:58:0a:2a:01:01", "state": 128, "flags": 0}]
		}
	}, {
		"name": "tsn0", "guest_mac": "0a:58:0a:2a:01:03",
		"device": {"type": "vhost-user", "path": "/run/ktsn/pods/u/tsn0.vhost.sock", "queue_num": 2, "queue_size": 0},
		"network_info": {"interface": {"ip_addresses": ["10.43.1.2/24"], "mtu": 1450, "ntype": "tuntap", "flags": 0}, "routes": [], "neighbors": []}
	}, {
		"name": "tsn1", "guest_mac": "52:54:00:12:34:56", "device": {"type": "vfio", "pci_device_id": "0000:02:00.0"},
		"network_info": {"interface": {"ip_addresses": ["10.44.1.2/24"], "mtu": 1500, "ntype": "tuntap", "flags": 0}, "routes": [], "neighbors": []}
	}]
}`

// keys are the paths of an object's fields, with lists left out.
func keys(prefix string, document any, into map[string]bool) {
	switch value := document.(type) {
	case map[string]any:
		for name, inner := range value {
			into[prefix+name] = true
			keys(prefix+name+".", inner, into)
		}
	case []any:
		for _, inner := range value {
			keys(prefix, inner, into)
		}
	}
}

func keysOf(t *testing.T, text []byte) map[string]bool {
	t.Helper()
	var all any
	testlab.Must(t, json.Unmarshal(text, &all))
	present := map[string]bool{}
	keys("", all, present)
	return present
}

func TestWriteDevices(t *testing.T) {
	var read Devices
	testlab.Must(t, json.Unmarshal([]byte(asKata), &read))
	folder := filepath.Join(t.TempDir(), "dans")
	testlab.Must(t, read.Write(folder, "sandbox"))
	written, err := os.ReadFile(Path(folder, "sandbox"))
	testlab.Must(t, err)
	known := keysOf(t, []byte(asKata))
	for key := range keysOf(t, written) {
		if !known[key] {
			t.Errorf("Kata does not know the field %s", key)
		}
	}
	var again Devices
	if err := json.Unmarshal(written, &again); err != nil || !reflect.DeepEqual(read, again) || again.Devices[1].Back.Path == "" || again.Devices[2].Back.Card == "" ||
		again.Devices[0].Network.Neighbors[0].State != 128 {
		t.Errorf("%+v was written as %+v, %v", read, again, err)
	}
	if err := errors.Join(Remove(folder, "sandbox"), Remove(folder, "sandbox")); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestReadInterface(t *testing.T) {
	pod := topology.NewTestNamespace(t, "kata")
	var info NetworkInfo
	testlab.Must(t, pod.Do(func() (err error) { info, err = readAfterSetup(); return err }))
	if !slices.Equal(info.Interface.Addresses, []string{"10.42.1.2/24", "fd42::2/64"}) || info.Interface.MTU != 1450 {
		t.Errorf("the interface is %+v", info.Interface)
	}
	// Something of each must tell its family.
	want := []Route{{Gateway: "10.42.1.1"}, {Destination: "0.0.0.0/0", Scope: unix.RT_SCOPE_LINK}, {Destination: "10.1.0.0/16", Gateway: "10.42.1.1"},
		{Destination: "::/0"}}
	if !slices.Equal(info.Routes, want) {
		t.Errorf("routes are %+v, want %+v", info.Routes, want)
	}
	if want := []Neighbor{{"10.42.1.1", "0a:58:0a:2a:01:01", netlink.NUD_PERMANENT}}; !slices.Equal(info.Neighbors, want) {
		t.Errorf("neighbours are %+v, want %+v", info.Neighbors, want)
	}
}

func everywhere(ip net.IP) *net.IPNet { return &net.IPNet{IP: ip, Mask: net.CIDRMask(0, 8*len(ip))} }

// readAfterSetup gives an interface of this network namespace what plugins give, and reads it.
func readAfterSetup() (NetworkInfo, error) {
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU = "eth0", 1450
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: "other"}); err != nil {
		return NetworkInfo{}, err
	}
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		return NetworkInfo{}, err
	}
	other, err := netlink.LinkByName("other")
	if err != nil {
		return NetworkInfo{}, err
	}
	gateway := net.IPv4(10, 42, 1, 1)
	far := net.IPNet{IP: net.IPv4(10, 1, 0, 0), Mask: net.CIDRMask(16, 32)}
	ipv4, ipv6 := net.IPNet{IP: net.IPv4(10, 42, 1, 2), Mask: net.CIDRMask(24, 32)}, net.IPNet{IP: net.ParseIP("fd42::2"), Mask: net.CIDRMask(64, 128)}
	for _, step := range []func() error{
		func() error { return netlink.LinkSetUp(other) },
		func() error { return netlink.LinkSetUp(link) },
		func() error { return netlink.AddrAdd(link, &netlink.Addr{IPNet: &ipv4}) },
		func() error { return netlink.AddrAdd(link, &netlink.Addr{IPNet: &ipv6}) },
		func() error { return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway}) },
		func() error {
			return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway, Dst: &far})
		},
		func() error {
			return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: everywhere(net.IPv4zero.To4()), Scope: netlink.SCOPE_LINK, Priority: 100})
		},
		func() error {
			return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: everywhere(net.IPv6zero)})
		},
		func() error {
			return netlink.NeighAdd(&netlink.Neigh{LinkIndex: link.Attrs().Index, IP: gateway, State: netlink.NUD_PERMANENT,
				HardwareAddr: net.HardwareAddr{0x0a, 0x58, 0x0a, 0x2a, 1, 1}})
		},
	} {
		if err := step(); err != nil {
			return NetworkInfo{}, err
		}
	}
	return ReadInterface(link)
}
