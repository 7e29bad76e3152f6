// SPDX-License-Identifier: Apache-2.0

package ovsnode

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLastLoggedError(t *testing.T) {
	log := filepath.Join(t.TempDir(), "switch.log")
	if got := lastLoggedError(log); got != "" {
		t.Errorf("of no log: %q", got)
	}
	text := "2026-11-21T19:35:04.293Z|00007|dpdk|ERR|EAL: Cannot get hugepage information.\n" +
		"2026-11-21T19:35:04.294Z|00008|dpdk|EMER|Unable to initialize DPDK: Permission denied\n" +
		"2026-11-21T19:35:04.300Z|00009|bridge|INFO|a | b\n\n"
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := lastLoggedError(log); got != "Unable to initialize DPDK: Permission denied" {
		t.Errorf("quoted %q", got)
	}
}
