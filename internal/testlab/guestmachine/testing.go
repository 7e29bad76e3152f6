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

// fetchPatience is for the packages that a machine is made of.
const fetchPatience = 5 * time.Minute

// Kernel prepares what a machine boots, by the repository's script, and returns Machine.Base.
func Kernel(t *testing.T, repository string) string {
	t.Helper()
	return prepared(t, filepath.Join(repository, "scripts", "guest-kernel.sh"))
}

// QEMU prepares the QEMU of bookworm-backports, by the repository's script, and returns Machine.QEMU.
func QEMU(t *testing.T, repository string) []string {
	t.Helper()
	return QEMUOf(prepared(t, filepath.Join(repository, "scripts", "guest-qemu.sh")))
}

// prepared returns the folder that a script prints.
func prepared(t *testing.T, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fetchPatience)
	defer cancel()
	command := exec.CommandContext(ctx, script)
	command.Stderr = os.Stderr
	folder, err := command.Output()
	if err != nil {
		testlab.Missing(t, filepath.Base(script)+": "+err.Error())
	}
	return strings.TrimSpace(string(folder))
}

// result is the last line that a test has in the log of the machine.
var result = regexp.MustCompile(`(?m)^( *)--- (PASS|FAIL|SKIP): (\S+) \(.*\)$`)

// Report makes a subtest of each test that was run in the machine, which ended with that status. What failed is shown with all
// that was said.
func Report(t *testing.T, m *Machine, status int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.Out, LogFile))
	if err != nil {
		t.Fatal(err)
	}
	results := result.FindAllStringSubmatch(string(text), -1)
	for _, one := range results {
		t.Run(strings.TrimPrefix(one[3], "Test"), func(t *testing.T) {
			if one[2] != "PASS" {
				t.Errorf("%s in the machine", one[2])
			}
		})
	}
	if status != 0 || len(results) == 0 {
		t.Errorf("the tests in the machine ended with status %d:\n%s", status, text)
	}
}
