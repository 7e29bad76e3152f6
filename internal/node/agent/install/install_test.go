// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
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

// TestAddKeepsFilesOfOthers also with a folder that is mounted elsewhere.
func TestAddKeepsFilesOfOthers(t *testing.T) {
	const folder, path = "/etc/program", "/etc/program/ours"
	n := newHost(t)
	n.Mounts = map[string]string{folder: filepath.Join(n.Root, "mounted")}
	in := func(path string) string { return filepath.Join(n.Root, "mounted", filepath.Base(path)) }
	add := func(content string, wantChanged bool, wantErr error) {
		t.Helper()
		changed, err := n.Add(path, []byte(content), 0o644)
		if changed != wantChanged || !errors.Is(err, wantErr) {
			t.Errorf("add %q: changed %v, %v; want %v, %v", content, changed, err, wantChanged, wantErr)
		}
	}
	add("one", false, fs.ErrNotExist)
	if _, err := os.Stat(n.Mounts[folder]); !os.IsNotExist(err) {
		t.Errorf("the folder of another program was created: %v", err)
	}
	testlab.Must(t, os.Mkdir(n.Mounts[folder], 0o755))
	add("one", true, nil)
	add("one", false, nil)
	add("two", true, nil)
	has(t, n, "/mounted/ours", "two")
	has(t, n, path, "")
	testlab.Must(t, os.WriteFile(in(path), []byte("theirs"), 0o644))
	add("two", false, ErrForeign)
	testlab.Must(t, n.Remove(path))
	has(t, n, "/mounted/ours", "theirs")
	add("two", false, ErrForeign)
	testlab.Must(t, os.Remove(in(path)))
	testlab.Must(t, os.Symlink("/nowhere/else", in(path)))
	add("two", false, ErrForeign)
	testlab.Must(t, os.Remove(in(path)))
	add("two", true, nil)
	testlab.Must(t, n.Remove(path))
	has(t, n, "/mounted/ours", "")
	has(t, n, n.List, "")
	testlab.Must(t, os.Rename(n.Mounts[folder], n.Mounts[folder]+".moved"))
	testlab.Must(t, os.Symlink(n.Mounts[folder]+".moved", n.Mounts[folder]))
	add("two", false, fs.ErrNotExist)
}

func TestConfig(t *testing.T) {
	for name, n := range map[string]network.Network{
		"the smallest one": {Name: "tsn", VNI: 42, Port: 4789, Ranges: []network.Range{{Prefix: netip.MustParsePrefix("10.42.0.0/16"), NodeBits: 24}}},
		"one with all": {Name: "tsn", VNI: 42, Port: 8472, MTU: 1400, Uplink: "eno1", Clock: true, Cards: []string{"0000:02:00.0"}, CardNamespaces: []string{"control"}, Routes: []v1alpha1.NetworkRoute{{To: "224.0.0.0/4"}, {To: "10.9.0.0/16", Via: "10.42.3.9"}}, Ranges: []network.Range{
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
			for _, route := range n.Routes {
				if want := fmt.Sprintf("%q", route.To); !strings.Contains(string(text), want) || !strings.Contains(string(text), route.Via) {
					t.Errorf("%s lacks the route %+v", text, route)
				}
			}
			for i, part := range parts {
				if !strings.Contains(string(text), part.String()) || !strings.Contains(string(text), n.Ranges[i].Prefix.String()) {
					t.Errorf("%s lacks %s or %s", text, part, n.Ranges[i].Prefix)
				}
			}
		})
	}
}
