// SPDX-License-Identifier: Apache-2.0

package network

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/test/cluster/kata/internal/protocol"
)

// podNamespace creates a network namespace with a pod's interface, until the test ends.
func podNamespace(t *testing.T) (name string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces are made by root only")
	}
	name = fmt.Sprintf("ktsn-kata-%d", os.Getpid())
	ip(t, "netns", "add", name)
	t.Cleanup(func() { ip(t, "netns", "del", name) })
	for _, line := range []string{
		"link add eth0 mtu 1450 address 0a:58:0a:2a:01:02 type veth peer name far", "link set far up", "link set eth0 up",
		"addr add 10.42.1.2/24 dev eth0", "addr add fd42::2/64 dev eth0 nodad", "route add default via 10.42.1.1",
		"neigh add 10.42.1.1 lladdr 0a:58:0a:2a:01:01 nud permanent dev eth0",
	} {
		ip(t, append([]string{"-n", name}, strings.Fields(line)...)...)
	}
	return name
}

func ip(t *testing.T, arguments ...string) string {
	t.Helper()
	output, err := exec.Command("ip", arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %q: %v: %s", arguments, err, output)
	}
	return string(output)
}

// disciplines returns the number of ingress queueing disciplines.
func disciplines(t *testing.T, namespace string) int {
	t.Helper()
	return strings.Count(ip(t, "netns", "exec", namespace, "tc", "qdisc", "show"), "ingress ffff:")
}

func TestInterfacesGetTaps(t *testing.T) {
	name := podNamespace(t)
	cards, err := Redirect("/run/netns/" + name)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(cards, func(card Card) bool { return card.Interface.Name == "eth0" })
	if len(cards) != 2 || at < 0 {
		t.Fatalf("the machine gets %+v", cards)
	}
	want := protocol.Interface{
		Name: "eth0", Address: "0a:58:0a:2a:01:02", MTU: 1450, IPs: []string{"10.42.1.2/24", "fd42::2/64"},
		Routes: []protocol.Route{{Gateway: "10.42.1.1"}}, Neighbors: []protocol.Neighbor{{IP: "10.42.1.1", Address: "0a:58:0a:2a:01:01", State: 128}},
	}
	if !reflect.DeepEqual(cards[at].Interface, want) {
		t.Errorf("the interface is %+v, want %+v", cards[at].Interface, want)
	}
	for device, to := range map[string]string{"eth0": cards[at].Tap, cards[at].Tap: "eth0"} {
		if output := ip(t, "netns", "exec", name, "tc", "filter", "show", "dev", device, "ingress"); !strings.Contains(output, "Redirect to device "+to) {
			t.Errorf("%s has the filters %q, want a redirection to %s", device, output, to)
		}
	}
	for range 2 {
		if err := Undo("/run/netns/" + name); err != nil {
			t.Error(err)
		}
	}
	if left := ip(t, "-n", name, "link"); strings.Contains(left, tapSuffix) || disciplines(t, name) > 0 {
		t.Errorf("left are %s and %d queueing disciplines", left, disciplines(t, name))
	}
}

func TestFilteredInterfaceIsRefused(t *testing.T) {
	name := podNamespace(t)
	ip(t, "netns", "exec", name, "tc", "qdisc", "add", "dev", "eth0", "clsact")
	_, err := Redirect("/run/netns/" + name)
	if err == nil || !strings.Contains(err.Error(), "redirect eth0: add the queueing discipline ingress to eth0: file exists") {
		t.Errorf("got %v", err)
	}
	if err := Undo("/run/netns/" + name); err != nil {
		t.Error(err)
	}
	if left := ip(t, "-n", name, "link"); strings.Contains(left, tapSuffix) {
		t.Errorf("left are %s", left)
	}
	if output := ip(t, "netns", "exec", name, "tc", "qdisc", "show", "dev", "eth0"); !strings.Contains(output, "clsact") {
		t.Errorf("the queueing discipline of others is gone: %s", output)
	}
}

func TestUndoOfGoneNetwork(t *testing.T) {
	if err := Undo("/run/netns/ktsn-kata-never"); err != nil {
		t.Error(err)
	}
}

func TestMachineFileListsCards(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sandbox.json")
	if _, _, err := ReadDevices(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	const text = `{"netns": "/run/netns/pod", "devices": [{"name": "tsn0", "guest_mac": "0a:58:0a:2a:01:03",
		"device": {"type": "%s", "tap_name": "taptsn0", "queue_num": 2, "queue_size": 0},
		"network_info": {"interface": {"ip_addresses": ["10.42.1.3/24"], "mtu": 1450, "ntype": "tuntap", "flags": 0},
			"routes": [{"dest": "10.1.0.0/16", "source": "10.42.1.3", "gateway": "10.42.1.1", "scope": 0}],
			"neighbors": [{"ip_address": "10.42.1.1", "hardware_addr": "0a:58:0a:2a:01:01", "state": 128}]}}]}`
	write := func(kind string) {
		if err := os.WriteFile(path, fmt.Appendf(nil, text, kind), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("host-tap")
	netns, cards, err := ReadDevices(path)
	want := []Card{{Tap: "taptsn0", Queues: 2, Interface: protocol.Interface{
		Name: "tsn0", Address: "0a:58:0a:2a:01:03", MTU: 1450, IPs: []string{"10.42.1.3/24"},
		Routes:    []protocol.Route{{Destination: "10.1.0.0/16", Gateway: "10.42.1.1", Source: "10.42.1.3"}},
		Neighbors: []protocol.Neighbor{{IP: "10.42.1.1", Address: "0a:58:0a:2a:01:01", State: 128}},
	}}}
	if err != nil || netns != "/run/netns/pod" || !reflect.DeepEqual(cards, want) {
		t.Errorf("got %q, %+v, %v", netns, cards, err)
	}
	write("vfio")
	if _, _, err := ReadDevices(path); err == nil || !strings.Contains(err.Error(), `device tsn0 is of type "vfio"`) {
		t.Errorf("of an unknown type: %v", err)
	}
}
