// SPDX-License-Identifier: Apache-2.0

package guestmachine

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// fetchTimeout limits the download of the packages of a machine.
const fetchTimeout = 5 * time.Minute

// Kernel prepares the kernel of a machine by the repository's script, and returns Machine.Base.
func Kernel(t *testing.T, repository string) string {
	t.Helper()
	return prepared(t, filepath.Join(repository, "scripts", "guest-kernel.sh"))
}

// QEMU prepares the QEMU of bookworm-backports by the repository's script, and returns Machine.QEMU.
func QEMU(t *testing.T, repository string) []string {
	t.Helper()
	return QEMUOf(prepared(t, filepath.Join(repository, "scripts", "guest-qemu.sh")))
}

// prepared returns the folder that a script prints.
func prepared(t *testing.T, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fetchTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, script)
	command.Stderr = os.Stderr
	folder, err := command.Output()
	if err != nil {
		testlab.Missing(t, filepath.Base(script)+": "+err.Error())
	}
	return strings.TrimSpace(string(folder))
}

// result matches the last line of a test in the log of the machine.
var result = regexp.MustCompile(`(?m)^( *)--- (PASS|FAIL|SKIP): (\S+) \(.*\)$`)

// Report creates a subtest for each test that ran in the machine. status is the exit status of the tests. A failure
// shows the whole log.
func Report(t *testing.T, m *Machine, status int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.Out, LogFile))
	if err != nil {
		t.Fatal(err)
	}
	results := result.FindAllStringSubmatch(string(text), -1)
	for _, match := range results {
		t.Run(strings.TrimPrefix(match[3], "Test"), func(t *testing.T) {
			if match[2] != "PASS" {
				t.Errorf("%s in the machine", match[2])
			}
		})
	}
	if status != 0 || len(results) == 0 {
		t.Errorf("the tests in the machine ended with status %d:\n%s", status, text)
	}
}
