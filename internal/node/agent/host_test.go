// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/install"
	"github.com/kubernetsn/kubernetsn/internal/node/hostcheck"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// TestHostFindingsOfFailedChecks checks that findings of a failed check count, and that a failure that stays is reported.
func TestHostFindingsOfFailedChecks(t *testing.T) {
	host, broken := &hostFindings{}, errors.New("no answer")
	for round := range maxHostFailures {
		host.set(nil, broken)
		if _, known, failure := host.get(); known != (round == maxHostFailures-1) || (failure != nil) != known {
			t.Errorf("round %d: known is %v, failure %v", round, known, failure)
		}
	}
	if _, changed := host.set(nil, broken); changed {
		t.Error("the same failure is a change")
	}
	host.set(nil, nil)
	breaking, changed := host.set([]hostcheck.Finding{{Reason: "reason", Breaks: true}}, broken)
	if findings, known, failure := host.get(); !known || !changed || failure != nil || len(findings) != 1 || len(breaking) != 1 {
		t.Errorf("findings %v, known is %v, failure %v, new ones %v", findings, known, failure, breaking)
	}
}

// TestInstallUnmanaged on a node with one of the managers; the other program that removes what was installed sees the same /etc.
func TestInstallUnmanaged(t *testing.T) {
	root := t.TempDir()
	etc := filepath.Join(root, "host/etc")
	testlab.Must(t, os.MkdirAll(filepath.Join(etc, "NetworkManager/conf.d"), 0o755))
	host := &install.Node{Root: root, Mounts: addedMounts(etc), List: "/installed.json"}
	for range 2 {
		installUnmanaged(host, slog.New(slog.DiscardHandler))
	}
	text, err := os.ReadFile(filepath.Join(etc, "NetworkManager/conf.d/90-kubernetsn.conf"))
	if want := hostcheck.Managers[0].Content; err != nil || string(text) != want {
		t.Errorf("the setting is %q, %v; want %q", text, err, want)
	}
	if _, err := os.Stat(filepath.Join(etc, "systemd")); !os.IsNotExist(err) {
		t.Errorf("there is a folder of a manager that the node does not have: %v", err)
	}
	options := &install.Node{Root: root, Mounts: addedMounts(etc), List: "/installed.json"}
	installed, err := options.Installed()
	testlab.Must(t, err)
	for _, path := range installed {
		testlab.Must(t, options.Remove(path))
	}
	if left, err := os.ReadDir(filepath.Join(etc, "NetworkManager/conf.d")); err != nil || len(installed) != 1 || len(left) > 0 {
		t.Errorf("installed were %q, left are %v, %v", installed, left, err)
	}
	if addedMounts("") != nil {
		t.Error("without the option folders of the node are mounted elsewhere")
	}
}
