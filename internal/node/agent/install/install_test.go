// SPDX-License-Identifier: Apache-2.0

package install

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/cni"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func newHost(t *testing.T) *Node {
	t.Helper()
	return &Node{Root: t.TempDir(), List: "/var/lib/list.json"}
}

func put(t *testing.T, n *Node, path, content string, want bool) {
	t.Helper()
	changed, err := n.File(path, []byte(content), 0o755)
	if err != nil || changed != want {
		t.Errorf("put %s: changed %v, %v; want %v", path, changed, err, want)
	}
}

func has(t *testing.T, n *Node, path, want string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(n.Root, path))
	if want == "" && !os.IsNotExist(err) || want != "" && string(text) != want {
		t.Errorf("%s has %q (%v), want %q", path, text, err, want)
	}
}

func TestFileIsInstalledOnceAndRepaired(t *testing.T) {
	n := newHost(t)
	const path = "/opt/cni/bin/plugin"
	put(t, n, path, "one", true)
	put(t, n, path, "one", false)
	put(t, n, path, "two", true)
	testlab.Must(t, os.WriteFile(filepath.Join(n.Root, path), []byte("spoilt"), 0o755))
	put(t, n, path, "two", true)
	testlab.Must(t, os.Chmod(filepath.Join(n.Root, path), 0o644))
	put(t, n, path, "two", true)
	has(t, n, path, "two")
	entries, err := os.ReadDir(filepath.Join(n.Root, "/opt/cni/bin"))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside it: %v, %v", entries, err)
	}
}

// TestRunningProgramIsReplaced is why a file is not written to: the kernel would refuse it.
func TestRunningProgramIsReplaced(t *testing.T) {
	n := newHost(t)
	put(t, n, "/bin/program", "one", true)
	old, err := os.Open(filepath.Join(n.Root, "/bin/program"))
	testlab.Must(t, err)
	defer old.Close()
	put(t, n, "/bin/program", "two", true)
	text := make([]byte, 3)
	if _, err := old.ReadAt(text, 0); err != nil || string(text) != "one" {
		t.Errorf("who had it open sees %q, %v", text, err)
	}
}

func TestRemoveOnlyInstalledFiles(t *testing.T) {
	n := newHost(t)
	put(t, n, "/a/ours", "one", true)
	put(t, n, "/a/changed", "one", true)
	for _, path := range []string{"/a/changed", "/a/theirs"} {
		testlab.Must(t, os.WriteFile(filepath.Join(n.Root, path), []byte("theirs"), 0o600))
	}
	// Another program of the agent does it.
	after := &Node{Root: n.Root, List: n.List}
	installed, err := after.Installed()
	if err != nil || strings.Join(installed, " ") != "/a/changed /a/ours" {
		t.Errorf("installed are %v, %v", installed, err)
	}
	for _, path := range []string{"/a/ours", "/a/changed", "/a/theirs", "/a/ours"} {
		if err := after.Remove(path); err != nil {
			t.Error(err)
		}
	}
	has(t, n, "/a/ours", "")
	has(t, n, "/a/changed", "theirs")
	has(t, n, "/a/theirs", "theirs")
	has(t, n, n.List, "")
}

func TestConfig(t *testing.T) {
	for name, n := range map[string]network.Network{
		"the smallest one": {Name: "tsn", VNI: 42, Port: 4789, Ranges: []network.Range{{Prefix: netip.MustParsePrefix("10.42.0.0/16"), NodeBits: 24}}},
		"one with all": {Name: "tsn", VNI: 42, Port: 8472, MTU: 1400, Uplink: "eno1", Clock: true, Cards: []string{"0000:02:00.0"}, CardNamespaces: []string{"control"}, Ranges: []network.Range{
			{Prefix: netip.MustParsePrefix("10.42.0.0/16"), NodeBits: 24}, {Prefix: netip.MustParsePrefix("fd42::/48"), NodeBits: 64}}},
	} {
		t.Run(name, func(t *testing.T) {
			parts := []netip.Prefix{netip.MustParsePrefix("10.42.3.0/24"), netip.MustParsePrefix("fd42:0:0:3::/64")}[:len(n.Ranges)]
			text, err := Config(&n, parts)
			testlab.Must(t, err)
			read, err := cni.ParseConfig(text)
			testlab.Must(t, err)
			if read.Overlay.VNI != n.VNI || read.Overlay.Port != n.Port || read.Overlay.MTU != n.MTU || read.Overlay.Uplink != n.Uplink ||
				read.NeedsClock != n.Clock || !slices.Equal(read.Cards, n.Cards) || !slices.Equal(read.CardNamespaces, n.CardNamespaces) || read.CreateSocket || read.SocketDir != PodSockets {
				t.Errorf("the plugin reads %+v", read)
			}
			for i, part := range parts {
				if !strings.Contains(string(text), part.String()) || !strings.Contains(string(text), n.Ranges[i].Prefix.String()) {
					t.Errorf("%s lacks %s or %s", text, part, n.Ranges[i].Prefix)
				}
			}
		})
	}
}
