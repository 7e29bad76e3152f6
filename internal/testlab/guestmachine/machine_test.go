// SPDX-License-Identifier: Apache-2.0

package guestmachine

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// The kernel reads concatenated archives; cpio reads only the first, so the base is empty here.
func TestInitialFileSystem(t *testing.T) {
	if _, err := exec.LookPath("cpio"); err != nil {
		testlab.Missing(t, "cpio is missing; run scripts/install-deps.sh conformance")
	}
	dir := t.TempDir()
	machine := Machine{Base: filepath.Join(dir, "base"), First: filepath.Join(dir, "first"), Out: filepath.Join(dir, "out"), Shown: []string{"/shown"}}
	for name, content := range map[string]string{machine.First: "program", filepath.Join(machine.Base, "node.cpio"): ""} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	archive, err := machine.pack(t.Context(), Command{Dir: "/work", Arguments: []string{"true"}, Environment: []string{"A=B"}})
	if err != nil {
		t.Fatal(err)
	}
	extract := exec.CommandContext(t.Context(), "cpio", "-i", "--quiet", "--to-stdout", "order.json")
	if extract.Stdin, err = os.Open(archive); err != nil {
		t.Fatal(err)
	}
	text, err := extract.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got order
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	modules := filepath.Join(machine.Base, "kernel")
	if got.Modules != modules || !slices.Equal(got.Shown, []string{modules, "/shown"}) || got.Dir != "/work" ||
		strings.Join(got.Command, " ")+strings.Join(got.Environment, " ") != "trueA=B" {
		t.Errorf("got %+v", got)
	}
}

func TestExitStatus(t *testing.T) {
	for status, want := range map[unix.WaitStatus]int{0: 0, 3 << 8: 3, unix.WaitStatus(unix.SIGKILL): 137} {
		if got := exitStatus(status); got != want {
			t.Errorf("%#x: got %d, want %d", uint32(status), got, want)
		}
	}
}
