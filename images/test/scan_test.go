// SPDX-License-Identifier: Apache-2.0

package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// database makes a database of vulnerabilities that has one, in a module.
func database(t *testing.T, module string) string {
	t.Helper()
	folder := t.TempDir()
	const id = "GO-2026-9999"
	for name, text := range map[string]string{
		"index/db.json":      `{"modified":"2026-01-01T00:00:00Z"}`,
		"index/modules.json": `[{"path":"` + module + `","vulns":[{"id":"` + id + `","modified":"2026-01-01T00:00:00Z"}]}]`,
		"index/vulns.json":   `[{"id":"` + id + `","modified":"2026-01-01T00:00:00Z","aliases":[]}]`,
		"ID/" + id + ".json": `{"schema_version":"1.3.1","id":"` + id + `","modified":"2026-01-01T00:00:00Z","summary":"made for a test",` +
			`"affected":[{"package":{"name":"` + module + `","ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],` +
			`"ecosystem_specific":{"imports":[{"path":"` + module + `"}]}}],` +
			`"database_specific":{"url":"https://example.test/` + id + `"}}`,
	} {
		write(t, filepath.Join(folder, name), text)
	}
	return folder
}

func TestScan(t *testing.T) {
	for _, name := range []string{"ktsn-push", "govulncheck"} {
		if _, err := os.Stat(filepath.Join(root(t), "bin", name)); err != nil {
			missing(t, "bin/"+name+" is missing; run `make images release-tools`")
		}
	}
	empty := database(t, "example.test/absent")
	write(t, filepath.Join(empty, "index/modules.json"), "[]")
	const modified = `^The database was modified at 2026-01-01T00:00:00Z, \d+ days ago.\n`
	for name, test := range map[string]struct {
		database, want string
		fails          bool
	}{
		"without a database": {"", `Not scanned: there is no database.*\n0 passed, 0 failed, \d+ skipped \(not scanned\)\n$`, false},
		"with a known hit":   {database(t, "github.com/spf13/cobra"), modified + `== ktsn\n(?s:.*)GO-2026-9999(?s:.*)\n\d+ passed, [1-9]\d* failed, 0 skipped\n$`, true},
		"without a hit":      {database(t, "example.test/absent"), modified + `\d\d passed, 0 failed, 0 skipped\n$`, false},
		"with no database":   {t.TempDir(), `is no database of vulnerabilities: it has no index/db.json\n$`, true},
		"with an empty one":  {empty, `is empty: its index/modules.json names no module\n$`, true},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := command(root(t), []string{"VULNDB=" + test.database}, "scripts/scan.sh")
			if (err != nil) != test.fails || !regexp.MustCompile(test.want).MatchString(output) {
				t.Errorf("got %q, %v, want %s", output, err, test.want)
			}
			if strings.Contains(output, "clean") {
				t.Errorf("it prints %q", output)
			}
		})
	}
}

func TestLicensesOfNoProgram(t *testing.T) {
	output, err := command(root(t), nil, "scripts/licenses.sh", "LICENSE")
	if err == nil || !strings.Contains(output, "LICENSE") {
		t.Errorf("got %q, %v", output, err)
	}
}
