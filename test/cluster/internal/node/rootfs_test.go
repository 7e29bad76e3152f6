// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestServiceNames(t *testing.T) {
	service := Service{Name: "echo", Command: []string{"printf", "%s|", "two words", "it's", "$HOME", `"`}}
	script := strings.Replace(string(service.script()), "exec >>/var/log/echo.log 2>&1\n", "", 1)
	output, err := exec.Command("sh", "-c", script).CombinedOutput()
	if want := `two words|it's|$HOME|"|`; err != nil || string(output) != want {
		t.Errorf("got %q, %v, want %q", output, err, want)
	}
}

func TestARootHasWhatItWasGiven(t *testing.T) {
	root := filepath.Join(t.TempDir(), "rootfs")
	setup := Setup{
		ID:       "abcdef",
		Files:    map[string]File{"/etc/secret": {Content: []byte("secret"), Mode: 0o600}},
		Services: []Service{{Name: "kubelet", Command: []string{"kubelet"}}},
	}
	if err := WriteRoot(root, "node1", setup); err != nil {
		t.Skip(err) // a machine without merged /usr
	}
	for name, mode := range map[string]os.FileMode{
		"etc/secret": 0o600, "etc/service/kubelet/run": 0o755, "etc/hostname": 0o644, startScript: 0o755,
	} {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if to, err := os.Readlink(filepath.Join(root, "var/run")); err != nil || to != "/run" {
		t.Errorf("/var/run leads to %q (%v)", to, err)
	}
}

func TestEachNodeIsAnotherMachine(t *testing.T) {
	ids := map[string]bool{}
	for _, cluster := range []string{"a", "b"} {
		for _, host := range []string{"node1", "node2"} {
			ids[machineID(host, cluster)] = true
		}
	}
	if len(ids) != 4 {
		t.Errorf("4 nodes have %d identities", len(ids))
	}
}

func TestHostSettingsAreMasked(t *testing.T) {
	script := start()
	for name := range masked {
		mask := strings.Index(script, "/proc/sys/"+name+"\n")
		if mask < 0 || mask > strings.Index(script, "exec runsvdir") {
			t.Errorf("%s is not masked in time", name)
		}
	}
}
