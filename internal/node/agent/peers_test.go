// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/install"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// TestRemovedConfigurationStaysWhileAddressesAreUsed imitates host-local, which creates a folder with the network's
// name.
func TestRemovedConfigurationStaysWhileAddressesAreUsed(t *testing.T) {
	host := t.TempDir()
	files := &configurations{
		Options: &Options{Host: host, ConfDir: "/conf", IPAMDir: "/networks", StateDir: filepath.Join(host, "state"), Node: "a"}, log: slog.New(slog.DiscardHandler),
		host: &install.Node{Root: host, List: "/installed.json"},
	}
	whole := netip.MustParsePrefix("10.42.0.0/16")
	tsn := network.Network{Name: "tsn", VNI: 42, Port: 4789, Ranges: []network.Range{{Prefix: whole, NodeBits: 24}}}
	configure := func(complete bool, networks ...network.Network) {
		t.Helper()
		testlab.Must(t, files.write(networks, map[string][]netip.Prefix{"tsn": {netip.MustParsePrefix("10.42.1.0/24")}}, complete))
	}
	there := func(path string, want bool) {
		t.Helper()
		if _, err := os.Stat(filepath.Join(host, path)); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", path, err, want)
		}
	}
	configure(true, tsn)
	there("/conf/tsn.conf", true)
	there("/state/static/tsn.json", false)
	tsn.Static = []netip.Prefix{netip.MustParsePrefix("10.42.255.0/24")}
	configure(true, tsn) // the owners of the addresses are not known yet
	there("/state/static/tsn.json", false)
	tsn.AddressOwners = []attachment.AddressOwner{{Address: netip.MustParseAddr("10.42.255.7"), Node: "b", Pod: "line/plc-0", UID: "first"}}
	configure(true, tsn)
	owners, err := attachment.ReadAddressOwners(files.StateDir, "tsn")
	if got := fmt.Sprint(owners); err != nil || got != "{a [{10.42.255.7 b line/plc-0 first}]}" {
		t.Errorf("the owners are %s, %v", got, err)
	}
	for _, path := range []string{"tsn/lock", "tsn/last_reserved_ip.0", "tsn/10.42.1.2", "cbr0/lock"} {
		path = filepath.Join(host, "/networks", path)
		testlab.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		testlab.Must(t, os.WriteFile(path, nil, 0o600))
	}
	configure(true)
	there("/conf/tsn.conf", true)
	there("/networks/tsn/10.42.1.2", true)
	testlab.Must(t, os.Remove(filepath.Join(host, "/networks/tsn/10.42.1.2")))
	configure(false) // while not all networks are known
	there("/conf/tsn.conf", true)
	configure(true)
	there("/conf/tsn.conf", false)
	there("/state/static/tsn.json", false)
	there("/networks/tsn", false)
	there("/networks/cbr0/lock", true)
}
